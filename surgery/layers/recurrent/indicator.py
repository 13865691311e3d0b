"""cont that is 0 at the first step of a call: what ContinuationIndicator makes for recurrent layers."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.building.expression import Expression
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import Dim, DType, OpenSize, Shape, Size, Value, computable, range_of
from prototrt.surgery.ops import Concat


def indicator(build: LayerBuilder, steps: Size, streams: Size) -> Value:
    """0 in the first row, 1 elsewhere: (T, N)."""
    if isinstance(steps, int) and isinstance(streams, int):
        later = build.constant(np.broadcast_to(np.float32(1), (steps - 1, streams)), "continuing")
        first = build.constant(np.broadcast_to(np.float32(0), (1, streams)), "beginning")
        return build.add(Concat(0), first, later) if steps > 1 else first
    number = Expression(build, build.aligned(build.counted_numbers(steps, "steps"), 2, 0))
    return build.broadcast((number > 0).cast(DType.FLOAT32).value, (steps, streams), "cont")


def fitted_indicator(build: LayerBuilder, cont: Value | None, shape: Shape) -> Value | None:
    """An indicator of this shape (T, N) for one that states the usual sizes of what varies; or ``cont`` itself.

    A ContinuationIndicator states numbers, and reads nothing that knows the sizes of a call.
    """
    node = None if cont is None else build.writer(cont)
    if cont is None or node is None or node.origin.type != "ContinuationIndicator" or cont.shape == shape:
        return cont
    pairs = list(zip(cont.shape, shape, strict=False))
    if len(shape) < 2 or not all(size == expected or size == _usual(expected) for size, expected in pairs):
        return cont
    differences = [f"{size} is {expected}" for size, expected in pairs if size != expected]
    build.warn(f'"{cont.name}" states usual sizes, which vary: {" and ".join(differences)}')
    steps, streams = map(computable, shape)
    return indicator(build, steps, streams)


def _usual(size: Dim) -> Dim:
    return range_of(size).opt if isinstance(size, OpenSize) else size
