"""Sliding windows without weights."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.builder import Builder
from prototrt.surgery.caffe2.operator_rule import operator_rule, refuse_order
from prototrt.surgery.caffe2.windows import Geometry, geometry_of
from prototrt.surgery.ir import Value, fixed
from prototrt.surgery.ops import AveragePool, MaxPool, Pad


@operator_rule("MaxPool")
def max_pool(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The largest element of sliding windows. Sizes round down, with ``legacy_pad`` 3 up, as in Caffe.

    Becomes: MaxPool.
    """
    geometry = _pooled(operator, x)
    return [build.add(MaxPool(geometry.kernel, geometry.stride, geometry.before, _needed(geometry, x)), x)]


@operator_rule("AveragePool")
def average_pool(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The mean of sliding windows, without the padding in them unless ``count_include_pad`` is 1.

    Becomes: AveragePool; Pad where the padding counts.
    """
    geometry = _pooled(operator, x)
    before, after = geometry.before, _needed(geometry, x)
    if operator.arguments.flag("count_include_pad") and any((*before, *after)):
        x = build.add(Pad((0, 0, *before), (0, 0, *after)), x)
        before = after = (0,) * len(before)
    return [build.add(AveragePool(geometry.kernel, geometry.stride, before, after), x)]


def _pooled(operator: Operator, x: Value) -> Geometry:
    refuse_order(operator)
    geometry = geometry_of(operator, x.shape)
    if any(step != 1 for step in geometry.dilation):
        raise UnsupportedLayerError(f"dilation is {geometry.dilation}, expected 1")
    if any(pad >= window for pad, window in zip(geometry.before, geometry.kernel, strict=True)):
        raise NetError(f"the padding is {geometry.before}, expected less than the kernel {geometry.kernel}")
    return geometry


def _needed(geometry: Geometry, x: Value) -> tuple[int, ...]:
    """The padding behind the image that a window reaches: all of it may be more than a window."""
    needed = []
    for axis, (window, stride) in enumerate(zip(geometry.kernel, geometry.stride, strict=True)):
        inside = fixed(x.shape[2 + axis], "a size of the image") + geometry.before[axis]
        out = (inside + geometry.after[axis] - window) // stride + 1
        if out < 1:
            raise ShapeError(
                f"the window {geometry.kernel} is larger than the input {x.shape} with its padding"
            )
        needed.append(max((out - 1) * stride + window - inside, 0))
    return tuple(needed)
