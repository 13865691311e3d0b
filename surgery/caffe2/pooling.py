"""Sliding windows without weights."""

from __future__ import annotations

from dataclasses import replace

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import operator_rule, refuse_order
from prototrt.surgery.caffe2.windows import OperatorGeometry, crop, geometry_of
from prototrt.surgery.ir import OpenSize, computable, fixed, range_of
from prototrt.surgery.ir.range_words import one_size
from prototrt.surgery.ops import AveragePool, MaxPool, Pad, Reduce, ReduceKind
from prototrt.surgery.ops.windows import larger_smallest, ranges_text


@operator_rule("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
def max_pool(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The largest element of sliding windows. Sizes round down, with ``legacy_pad`` 3 up, as in Caffe.

    Becomes: MaxPool; Reduce over a whole image whose size varies.
    """
    if whole := _over_whole_image(build, operator, x, ReduceKind.MAX):
        return [build.add(whole, x)]
    geometry, x = _windows(build, operator, x)
    return [build.add(MaxPool(geometry.kernel, geometry.stride, geometry.before, geometry.after), x)]


@operator_rule("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")
def average_pool(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The mean of sliding windows, without the padding in them unless ``count_include_pad`` is 1.

    Becomes: AveragePool; Pad where the padding counts; Reduce over a whole image whose size varies.
    """
    if whole := _over_whole_image(build, operator, x, ReduceKind.MEAN):
        return [build.add(whole, x)]
    geometry, x = _windows(build, operator, x)
    before, after = geometry.before, geometry.after
    if operator.arguments.flag("count_include_pad") and any((*before, *after)):
        x = build.add(Pad((0, 0, *before), (0, 0, *after)), x)
        before = after = (0,) * len(before)
    return [build.add(AveragePool(geometry.kernel, geometry.stride, before, after), x)]


def _windows(build: Builder, operator: Operator, x: Value) -> tuple[OperatorGeometry, Value]:
    """The windows, with padding after the image up to the end of the last one."""
    refuse_order(operator)
    geometry = geometry_of(build, operator, x.shape)
    if any(step != 1 for step in geometry.dilation):
        raise UnsupportedLayerError(
            f"dilation is {geometry.dilation}, expected 1",
            fix=CUT_BEFORE,
        )
    geometry, x = crop(build, geometry, x)
    needed = tuple(_end_padding(geometry, x, axis) for axis in range(len(geometry.kernel)))
    pads = zip(geometry.before, geometry.after, geometry.kernel, strict=True)
    if any(max(before, after) >= window for before, after, window in pads):
        raise NetError(
            f"the padding is {(*geometry.before, *geometry.after)}, expected less than the kernel {geometry.kernel}",
            fix=MEND_ARGUMENTS,
        )
    return replace(geometry, after=needed), x


def _end_padding(geometry: OperatorGeometry, x: Value, axis: int) -> int:
    """The padding after the image that a window reaches: the whole padding may be larger than a window."""
    window, stride, after = geometry.kernel[axis], geometry.stride[axis], geometry.after[axis]
    size = computable(x.shape[2 + axis], "a size of the image")
    inside = size + geometry.before[axis]
    out = (inside + after - window) // stride + 1
    if range_of(out).min < 1:
        raise ShapeError(
            f"the window {geometry.kernel} is larger than the input {x.shape} with its padding",
            because=ranges_text(size),
            fix=larger_smallest(size, "use a smaller window or a larger input"),
        )
    if range_of((out - 1) * stride - inside).max >= 0:
        raise ShapeError(
            f"the last window of axis {2 + axis} starts after the end of the input {x.shape}",
            because=ranges_text(size),
            fix=Worded("use a larger window, or {}", one_size(size.symbols))
            if isinstance(size, OpenSize)
            else "use a larger window, or a smaller stride or padding",
        )
    return (
        after if isinstance(inside, OpenSize) else max(fixed(out - 1, "a size") * stride + window - inside, 0)
    )


def _over_whole_image(build: Builder, operator: Operator, x: Value, kind: ReduceKind) -> Reduce | None:
    """What pools over an image whose size varies as one window; None for other windows and images."""
    axes = tuple(range(2, len(x.shape)))
    is_open = any(isinstance(x.shape[axis], OpenSize) for axis in axes)
    if not (is_open and operator.arguments.flag("global_pooling")):
        return None
    refuse_order(operator)
    geometry_of(build, operator, (*x.shape[:2], *(1 for _ in axes)))  # it refuses what Caffe2 refuses
    return Reduce(kind, axes)
