"""Pooling: sliding windows without weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, refuse_fields_of
from prototrt.surgery.building.limits import refuse_large
from prototrt.surgery.images.spatial import per_axis
from prototrt.surgery.ir import DType, OpenSize, computable
from prototrt.surgery.layers.pooling_geometry import Sizes, Span, geometry, spans
from prototrt.surgery.layers.windows import gather_windows, window_elements
from prototrt.surgery.ops import (
    MAXIMUM,
    AveragePool,
    MaxPool,
    MaxPoolIndex,
    Pad,
    Reduce,
    ReduceKind,
    Slice,
    StochasticPool,
)


@layer_rule("Pooling")
def pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The largest or the mean element of sliding windows; sizes round up, or as ``round_mode`` says. MAX passes over
    NaN in Caffe; TensorRT, ONNX and PyTorch may return it.

    The lowest float stays where nothing is larger, as in a window wholly outside the image. A window of -infinity alone
    may be that with the others.

    Becomes: MaxPool, MaxPoolIndex; Pad and AveragePool; StochasticPool; over sizes that vary Reduce, Gather.
    Bottoms: (N, C, H, W), or (N, C, L, H, W) as in forks. Tops: (N, C, h, w) or (N, C, l, h, w), and with MAX
    of images optionally where in its plane each largest element stands. A last window that would start inside
    the padding is dropped, where there is padding; without padding it may be empty. AVE divides by the
    window's size, clipped to the padded image. STOCHASTIC is the one of the TEST phase.
    ``ceil_mode: false``, of forks, rounds down. ``dilation``, of naibaf7, puts elements of a MAX window apart.
    Forks state ``kernel_size``, ``stride`` and ``pad`` once or once per axis. Of Synopsys: AVE_EXC_PAD
    divides by the number of elements; ``pad_l``, ``pad_r``, ``pad_t`` and ``pad_b`` pad each side.
    Source: caffe ``src/caffe/layers/pooling_layer.cpp``, ``pooling_layer.cu``; naibaf7/caffe, yjxiong/caffe
    (branch 3D), caffe3d and synopsys-caffe, the same files.
    """
    expect_axes(layer, 0, x, "(N, C, H, W) or (N, C, L, H, W)", 4, 5)
    param = layer.param
    refuse_fields_of(param, FIELDS_OF_VOLUMES)
    _warn_of_ignored(build, param)
    is_open = any(isinstance(dim, OpenSize) for dim in x.shape[2:])
    if param.global_pooling and is_open and len(layer.tops) == 1:
        geometry(param, (1,) * (len(x.shape) - 2))  # it refuses what Caffe refuses
        return [_pool_globally(build, param, x)]
    windows, strides, (before, after) = geometry(param, x.shape[2:])
    is_volume = len(x.shape) > 4
    if is_volume:
        _refuse_planar(layer)
    floor = param.round_mode == param.FLOOR or not param.ceil_mode
    dilation = _dilation(layer, windows)
    extents = tuple(step * (window - 1) + 1 for step, window in zip(dilation, windows, strict=True))
    axis_spans = spans(x.shape, extents, strides, before, after, floor=floor, each_axis=is_volume)
    if max(dilation) > 1:
        return [_dilated_max_pool(build, x, axis_spans, windows, dilation)]
    if param.pool == param.MAX and len(layer.tops) == 2:
        return [_max_pool(build, x, *axis_spans), _max_pool_index(build, x, *axis_spans)]
    return [pool(build, param, x, *axis_spans)]


MOST_OF_HOLES = 256
"""Elements along one axis of a window with holes: each becomes a node."""
FIELDS_OF_VOLUMES = {
    "kernel_depth": "Pooling3D",
    "temporal_stride": "Pooling3D",
    "kernel_l": "Pooling3D",
    "stride_l": "Pooling3D",
    "kernel_shape": "NdPooling",
    "stride_shape": "NdPooling",
    "pad_shape": "NdPooling",
}
"""Fields that Pooling does not read, and the type that does."""


def _pool_globally(build: LayerBuilder, param: Any, x: Value) -> Value:
    """One window over the whole input, whose size varies."""
    axes = tuple(range(2, len(x.shape)))
    if param.pool != param.STOCHASTIC:
        return build.add(Reduce(ReduceKind.MAX if param.pool == param.MAX else ReduceKind.MEAN, axes), x)
    return stochastic_mean(x.sum(*axes), (x * x).sum(*axes))


def stochastic_mean(total: Value, squares: Value) -> Value:
    """The means of windows whose elements and their squares add up to these, as ``StochasticPool`` defines them."""
    return (total > 0).chosen(squares / (total > 0).chosen(total, 1), 0)


def _warn_of_ignored(build: LayerBuilder, param: Any) -> None:
    """Warn of the one half of a window that Caffe does not read beside ``kernel_size``."""
    halves = [name for name in ("kernel_h", "kernel_w") if param.HasField(name)]
    if param.kernel_size and len(halves) == 1:
        build.warn(f"{halves[0]} is ignored, as in Caffe: kernel_size is stated")


def _refuse_planar(layer: Layer) -> None:
    """Refuse what is defined for images alone. Raises ``UnsupportedLayerError``."""
    if layer.param.pool == layer.param.STOCHASTIC or len(layer.tops) > 1:
        asked = "a mask of the largest elements" if len(layer.tops) > 1 else "STOCHASTIC pooling"
        raise UnsupportedLayerError(
            f"{asked} is supported only for bottoms (N, C, H, W)",
            because="the forks with bottoms of 5 axes compute only MAX and AVE over them, with one top",
            fix=CUT_BEFORE_LAYER,
        )


def _dilation(layer: Layer, windows: Sizes) -> Sizes:
    """How far apart the elements of a window are along each axis. Raises ``NetError``."""
    param = layer.param
    dilation = per_axis(list(param.dilation), "dilation", len(windows), 1)
    if min(dilation) < 1:
        raise NetError(
            f"dilation is {dilation}, expected at least 1",
            fix="state the distance between the elements of a window",
        )
    if max(dilation) > 1 and (param.pool != param.MAX or len(layer.tops) > 1):
        raise UnsupportedLayerError(
            f"dilation is {dilation}, which is supported only for MAX with one top",
            fix=CUT_BEFORE_LAYER,
        )
    if max(dilation) > 1:
        refuse_large("kernel_size", max(windows), MOST_OF_HOLES)
    return dilation


def _dilated_max_pool(
    build: LayerBuilder, x: Value, axis_spans: Sequence[Span], windows: Sizes, dilation: Sizes
) -> Value:
    """The largest element of windows with holes: for each axis, the largest of shifted images.

    Source: naibaf7/caffe ``src/caffe/layers/pooling_layer.cu``, ``MaxPoolForwardSK``.
    """
    lowest, spatial = float(np.finfo(np.float32).min), len(windows)
    for place, (span, window, step) in enumerate(zip(axis_spans, windows, dilation, strict=True)):
        if span.pad or span.beyond(span.pad):
            before = _along(2 + place, 2 + spatial, span.pad, 0)
            after = _along(2 + place, 2 + spatial, span.beyond(span.pad), 0)
            x = build.add(Pad(before, after, lowest), x, hint="padded")
        size = (span.out - 1) * span.stride + 1
        shifted = [build.add(Slice(2 + place, index * step, size), x) for index in range(window)]
        x = reduce(partial(build.add, MAXIMUM), shifted)
        if span.stride > 1:
            once, nothing = (1,) * spatial, (0,) * spatial
            x = build.add(
                MaxPool(once, _along(place, spatial, span.stride, 1), nothing, nothing), x, hint="strided"
            )
    return x


def _along(axis: int, axes: int, size: int, others: int) -> Sizes:
    """``size`` along one of the axes."""
    return tuple(size if place == axis else others for place in range(axes))


def pool(build: LayerBuilder, param: Any, x: Value, *axis_spans: Span) -> Value:
    """What ``pool`` asks for: the largest, the mean or a weighted mean element of each window."""
    methods = {param.MAX: _max_pool, param.AVE: _average_pool, param.STOCHASTIC: _stochastic_pool}
    return methods.get(param.pool, _average_of_elements)(build, x, *axis_spans)


def _max_pool(build: LayerBuilder, x: Value, *axis_spans: Span) -> Value:
    """The largest element of each window, the lowest number where there is none."""
    lowest = float(np.finfo(np.float32).min)
    return _with_empty(
        build, build.add(_windows(MaxPool, axis_spans), x), axis_spans, [lowest] * len(axis_spans)
    )


def _max_pool_index(build: LayerBuilder, x: Value, *axis_spans: Span) -> Value:
    op = _windows(MaxPoolIndex, axis_spans)
    is_open = any(isinstance(dim, OpenSize) for dim in x.shape[2:])
    y = _first_largest(build, x, op) if is_open else build.add(op, x)
    return _with_empty(build, y, axis_spans, [-1] * len(axis_spans))


def _first_largest(build: LayerBuilder, x: Value, op: MaxPoolIndex) -> Value:
    """What ``MaxPoolIndex`` means, for planes whose size varies: their positions are computed."""
    padded = x
    if any(op.before + op.after):
        padded = build.add(Pad((0, 0, *op.before), (0, 0, *op.after), -math.inf), x, hint="padded")
    seen = gather_windows(build, padded, op.window, op.stride, (1, 1))
    items, channels, high, rows, wide, columns = seen.shape
    down, right = (
        window_elements(build, window, computable(count), stride) - before
        for window, count, stride, before in zip(
            op.window, (rows, columns), op.stride, op.before, strict=True
        )
    )
    places = down.reshape(1, 1, high, rows, 1, 1) * computable(x.shape[3])
    places += right.reshape(1, 1, 1, 1, wide, columns)
    largest = seen.largest(2, 4)
    first = seen.equals(largest).chosen(places.cast(DType.FLOAT32), math.inf).smallest(2, 4)
    index = (largest > float(np.finfo(np.float32).min)).chosen(first, -1)
    return index.reshape(items, channels, rows, columns)


def _average_pool(build: LayerBuilder, x: Value, *axis_spans: Span) -> Value:
    """The mean of each window, in which the padding counts."""
    inner = [span.without_empty for span in axis_spans]
    before, after = (
        tuple(ends) for ends in zip(*((span.pad, span.after) for span in axis_spans), strict=True)
    )
    if any(before + after):
        x = build.add(Pad((0, 0, *before), (0, 0, *after)), x)
    beyond = tuple(span.beyond(span.pad + span.after) for span in inner)
    window, stride = tuple(span.window for span in axis_spans), tuple(span.stride for span in axis_spans)
    return _with_empty_means(
        build, build.add(AveragePool(window, stride, (0,) * len(axis_spans), beyond), x), axis_spans
    )


def _average_of_elements(build: LayerBuilder, x: Value, *axis_spans: Span) -> Value:
    """The mean of each window, in which the padding does not count."""
    return _with_empty_means(build, build.add(_windows(AveragePool, axis_spans), x), axis_spans)


def _with_empty_means(build: LayerBuilder, y: Value, axis_spans: Sequence[Span]) -> Value:
    """``y`` with the means of empty windows: 0 for a window without elements, NaN for a window of size 0."""
    y = _with_empty(build, y, axis_spans, [0.0 if span.empty_size else math.nan for span in axis_spans])
    for axis, span in enumerate(axis_spans, 2):
        if span.has_empty and isinstance(span.size, OpenSize):
            y = _with_windows_of_size_0(build, y, axis, span)
    return y


def _with_windows_of_size_0(build: LayerBuilder, y: Value, axis: int, span: Span) -> Value:
    """``y`` with NaN in the window along an axis that begins right after the input, at the sizes where one does."""
    starts = build.counted_numbers(span.out, "windows") * span.stride
    is_empty = starts.reshape(*(1,) * axis, span.out, *(1,) * (len(y.shape) - axis - 1)).equals(span.size)
    return is_empty.chosen(math.nan, y)


def _stochastic_pool(build: LayerBuilder, x: Value, *axis_spans: Span) -> Value:
    return _with_empty(
        build, build.add(_windows(StochasticPool, axis_spans), x), axis_spans, [0] * len(axis_spans)
    )


Windows = TypeVar("Windows", AveragePool, MaxPool, MaxPoolIndex, StochasticPool)


def _windows(op: type[Windows], axis_spans: Sequence[Span]) -> Windows:
    """The windows that see something, over the image with its padding, which never counts."""
    inner = [span.without_empty for span in axis_spans]
    return op(
        tuple(span.window for span in inner),
        tuple(span.stride for span in inner),
        tuple(span.pad for span in inner),
        tuple(span.beyond(span.pad) for span in inner),
    )


def _with_empty(build: LayerBuilder, y: Value, axis_spans: Sequence[Span], empty: Sequence[float]) -> Value:
    """``y`` with one more element along each axis whose last windows see nothing: what is ``empty`` there."""
    none = (0,) * len(y.shape)
    edges = [
        (_along(2 + place, len(none), 1, 0), value, span)
        for place, (value, span) in enumerate(zip(empty, axis_spans, strict=True))
    ]
    # Where row and column meet, NaN wins: it is written last.
    for after, value, span in sorted(edges, key=lambda edge: math.isnan(edge[1])):
        if span.has_empty:
            y = build.add(Pad(none, after, value), y, hint="empty_windows")
            if isinstance(span.size, OpenSize):  # at some sizes none is empty
                y = build.add(Slice(after.index(1), 0, span.out), y, hint="windows")
    return y
