"""Numbers of 8 bits: to integers or small floats, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir import EIGHT_BITS, Array, DType, Op, Shape, Value
from prototrt.surgery.ir.axes import Tie, at_same_places, one_by_one

LARGEST = {DType.INT8: 127.0, DType.FLOAT8: 448.0}
"""What the largest magnitude of a tensor becomes. int8 also has -128, which a range does not use."""


class ScaledOp(Op):
    """A primitive with one scale for a tensor, or with ``axis`` one for each element of that axis."""

    __slots__ = ()
    constants: ClassVar[tuple[int, ...]] = (1,)
    axis: int | None

    def shape(self, x: Shape, scale: Shape) -> list[Shape]:
        expected = () if self.axis is None else (x[self.axis],)
        assert scale == expected, f"a scale of {scale} for {x}, expected {expected}"
        return [x]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        x, scale = inputs
        yield from at_same_places([x], outputs)
        if self.axis is not None:
            yield scale, x, one_by_one((0,), (self.axis,))

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        this: Any = self  # only its children are dataclasses
        changed: Op = this if self.axis is None else replace(this, axis=places[self.axis])
        return changed

    def _align(self, scale: Array, x: Array) -> Array:
        """The scale in a shape that broadcasts against x."""
        return scale if self.axis is None else scale.reshape(-1, *(1,) * (x.ndim - 1 - self.axis))


@dataclass(frozen=True, slots=True)
class Quantize(ScaledOp):
    """``x / scale`` in 8 bits, rounded to the nearest number, ties to even; what is larger becomes the largest.

    int8 is from -128 to 127, float8 (e4m3) from -448 to 448. x and scale have one type.
    """

    to: DType = DType.INT8
    axis: int | None = None

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [self.to]

    def evaluate(self, x: Array, scale: Array) -> list[Array]:
        y = x / self._align(scale, x)
        if self.to is DType.INT8:
            return [np.clip(np.rint(y), -128, 127).astype(np.int8)]
        return [np.clip(y, -LARGEST[self.to], LARGEST[self.to]).astype(self.to.numpy)]


@dataclass(frozen=True, slots=True)
class Dequantize(ScaledOp):
    """``x * scale`` for x of 8 bits, in the type of the scale."""

    weights: ClassVar[tuple[int, ...]] = (0,)
    axis: int | None = None

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [inputs[1]]

    def faults(self, inputs: Sequence[Value]) -> Sequence[str]:
        return [] if inputs[0].dtype in EIGHT_BITS else [f"it reads {inputs[0].dtype.value}"]

    def evaluate(self, x: Array, scale: Array) -> list[Array]:
        return [x.astype(np.float32) * self._align(scale, x)]
