"""Sliding windows without weights."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import operator_rule, refuse_order
from prototrt.surgery.caffe2.windows import crop, window_of
from prototrt.surgery.images import pooling
from prototrt.surgery.ir import OpenSize
from prototrt.surgery.ir.range_words import one_size
from prototrt.surgery.ops import Reduce, ReduceKind
from prototrt.surgery.ops.windows import ranges_text


@operator_rule("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
def max_pool(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The largest element of sliding windows. Sizes round down, with ``legacy_pad`` 3 up, as in Caffe.

    Becomes: MaxPool; Reduce over a whole image whose size varies.
    """
    if whole := _over_whole_image(build, operator, x, ReduceKind.MAX):
        return [build.add(whole, x)]
    axis_spans, x = _spans(build, operator, x)
    return [pooling.max_pool(build, x, axis_spans)]


@operator_rule("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")
def average_pool(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The mean of sliding windows, without the padding in them unless ``count_include_pad`` is 1.

    Becomes: AveragePool; Pad where the padding counts; Reduce over a whole image whose size varies.
    """
    if whole := _over_whole_image(build, operator, x, ReduceKind.MEAN):
        return [build.add(whole, x)]
    axis_spans, x = _spans(build, operator, x)
    pool = (
        pooling.mean_with_padding
        if operator.arguments.flag("count_include_pad")
        else pooling.mean_of_elements
    )
    return [pool(build, x, axis_spans)]


def _spans(build: Builder, operator: Operator, x: Value) -> tuple[list[pooling.Span], Value]:
    """Where the windows stand, and what they slide over."""
    refuse_order(operator)
    window = window_of(build, operator, x.shape)
    if any(step != 1 for step in window.dilation):
        raise UnsupportedLayerError(f"dilation is {window.dilation}, expected 1", fix=CUT_BEFORE)
    window, x = crop(build, window, x)
    axis_spans = pooling.spans(x.shape, window, floor=True, drops="never")
    for axis, span in enumerate(axis_spans, 2):
        if span.has_empty:
            raise ShapeError(
                f"the last window of axis {axis} starts after the end of the input {x.shape}",
                because=ranges_text(span.size),
                fix=Worded("use a larger window, or {}", one_size(span.size.symbols))
                if isinstance(span.size, OpenSize)
                else "use a larger window, or a smaller stride or padding",
            )
    pads = zip(window.before, window.after, window.kernel, strict=True)
    if any(max(before, after) >= size for before, after, size in pads):
        raise NetError(
            f"the padding is {(*window.before, *window.after)}, expected less than the kernel {window.kernel}",
            fix=MEND_ARGUMENTS,
        )
    return axis_spans, x


def _over_whole_image(build: Builder, operator: Operator, x: Value, kind: ReduceKind) -> Reduce | None:
    """What pools over an image whose size varies as one window; None for other windows and images."""
    axes = tuple(range(2, len(x.shape)))
    is_open = any(isinstance(x.shape[axis], OpenSize) for axis in axes)
    if not (is_open and operator.arguments.flag("global_pooling")):
        return None
    refuse_order(operator)
    window_of(build, operator, (*x.shape[:2], *(1 for _ in axes)))  # it refuses what Caffe2 refuses
    return Reduce(kind, axes)
