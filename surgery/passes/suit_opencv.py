"""Pass: say in other primitives what OpenCV 5 reads, but computes wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, Graph, Op, Value
from prototrt.surgery.passes.rewrite_nodes import Rule, rewrite_nodes

IMAGE = 4
"""Axes of an image: OpenCV lays them out in blocks of channels, and has such a PReLU for images alone."""
LARGE = 2.0**20
"""Boxes are enlarged by this, which is exact."""
BOUND = 15.0
"""The hyperbolic tangent of this and of all larger numbers is 1 in float32."""


def suit_opencv(graph: Graph) -> Graph:
    """Replace what OpenCV computes wrongly by primitives that it computes well.

    Before: ``TanH(x)``, whose result is NaN for large x
    After:  ``TanH(Clip[-15, 15](x))``
    Before: ``Reduce[axes=(0, 2, 3)](x)``, where OpenCV mixes the elements up
    After:  ``Reduce[axes=(2, 3)](Reduce[axes=(0,)](x))``; the same for all axes of int32, which end the program
    Before: ``PReLU(x, slope)`` but for constants, one for each channel of an image
    After:  ``LeakyReLU(x) - slope * LeakyReLU(-x)``
    Before: ``Convolution[pad=1](x, kernel 1x1)``, which reads memory that nobody has written
    After:  ``Convolution[pad=0](Pad[1](x))``
    Before: ``Resize(x)`` of an axis of size 1, which reads beyond it
    After:  ``Resize(Tile[2](x))``
    Before: ``NonMaxSuppression(boxes, chosen)``, where boxes without an area suppress each other
    After:  the same of boxes with an area; the others stay as they are
    Before: ``Abs(x)``, ``Negative(x)`` and ``Sign(x)`` of int32, which it does not read
    After:  maxima and differences
    Left alone: everything else. There are no bodies: OpenCV reads no loops.
    """
    return rewrite_nodes(graph, _RULES)


def _tanh(build: Builder, op: ops.TanH, x: Value) -> Value:
    return build.add(op, build.add(ops.Clip(-BOUND, BOUND), x, hint="bounded"))


def _reduce(build: Builder, op: ops.Reduce, x: Value) -> Value | None:
    rank = len(x.shape)
    is_mixed_up = len(op.axes) > 2 and op.axes != tuple(range(rank - len(op.axes), rank))
    ends_the_program = x.dtype is DType.INT32 and len(op.axes) == rank > 1
    if not is_mixed_up and not ends_the_program:
        return None
    first = build.add(ops.Reduce(op.kind, op.axes[:1]), x, hint="first_axis")
    others = ops.Reduce(op.kind, op.axes[1:])
    rest = _reduce(build, others, first) or build.add(others, first)
    return rest if op.keep else build.reshape(rest, op.shape(x.shape)[0])


def _prelu(build: Builder, op: ops.PReLU, x: Value, slope: Value) -> Value | None:
    by_channel = slope.data is not None and all(dim == 1 for axis, dim in enumerate(slope.shape) if axis != 1)
    if by_channel and len(x.shape) == IMAGE:
        return None
    positive, negative = build.add(ops.LeakyReLU(), x), build.add(ops.LeakyReLU(), build.add(ops.NEGATIVE, x))
    return build.add(ops.SUBTRACT, positive, build.add(ops.MULTIPLY, slope, negative))


def _convolution(build: Builder, op: ops.Convolution, x: Value, kernel: Value, bias: Value) -> Value | None:
    if not any(op.pad) or any(size != 1 for size in kernel.shape[2:]):
        return None
    pads = (0, 0, *op.pad)
    unpadded = replace(op, pad=(0,) * len(op.pad))
    return build.add(unpadded, build.add(ops.Pad(pads, pads), x, hint="padded"), kernel, bias)


def _resize(build: Builder, op: ops.Resize, x: Value) -> Value | None:
    thin = [axis for axis in (2, 3) if x.shape[axis] == 1]
    for axis in thin:
        x = build.add(ops.Tile(axis, 2), x, hint="two_rows")
    return build.add(op, x) if thin else None


def _suppression(build: Builder, op: ops.NonMaxSuppression, boxes: Value, chosen: Value) -> Value:
    """Large boxes: OpenCV takes an area below 2^-23 for none."""
    large = build.add(ops.MULTIPLY, boxes, build.scalar(LARGE, 3))
    sides = build.add(
        ops.SUBTRACT, build.add(ops.Slice(2, 2, 2), large), build.add(ops.Slice(2, 0, 2), large)
    )
    shorter = build.add(
        ops.MINIMUM, build.add(ops.Slice(2, 0, 1), sides), build.add(ops.Slice(2, 1, 1), sides)
    )
    has_area = build.add(ops.GREATER, build.reshape(shorter, chosen.shape), build.scalar(0, 2))
    kept = build.add(op, large, build.add(ops.AND, chosen, has_area))
    return build.add(ops.Select(), has_area, kept, chosen)


def _unary(build: Builder, op: ops.Unary, x: Value) -> Value | None:
    if x.dtype is not DType.INT32:
        return None
    zero, one, minus = (build.scalar(number, len(x.shape), x.dtype) for number in (0, 1, -1))
    if op.kind is ops.UnaryKind.SIGN:
        return build.add(ops.MINIMUM, build.add(ops.MAXIMUM, x, minus), one)
    negative = build.add(ops.SUBTRACT, zero, x)
    return negative if op.kind is ops.UnaryKind.NEGATIVE else build.add(ops.MAXIMUM, x, negative)


_RULES: Mapping[type[Op], Rule] = {
    ops.Convolution: _convolution,
    ops.NonMaxSuppression: _suppression,
    ops.PReLU: _prelu,
    ops.Reduce: _reduce,
    ops.Resize: _resize,
    ops.TanH: _tanh,
    ops.Unary: _unary,
}
