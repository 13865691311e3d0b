"""Sliding windows without weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.wording import Worded
from prototrt.surgery.expansion.layer_builder import LayerBuilder, expect_axes, layer_rule, refuse_fields_of
from prototrt.surgery.expansion.limits import refuse_large
from prototrt.surgery.ir import (
    DType,
    OpenSize,
    Shape,
    Size,
    Value,
    computable,
    element_count,
    fixed,
    range_of,
    symbols_of,
)
from prototrt.surgery.ir.expression import Expression
from prototrt.surgery.ir.range_words import one_size
from prototrt.surgery.layers.spatial import per_axis
from prototrt.surgery.layers.windows import elements_seen, laid_out
from prototrt.surgery.ops import (
    MAXIMUM,
    AveragePool,
    Concat,
    MaxPool,
    MaxPoolIndex,
    Pad,
    Reduce,
    ReduceKind,
    Slice,
    StochasticPool,
)
from prototrt.surgery.ops.windows import larger_smallest, told_ranges

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Pooling windows along one axis: input ``size``, window, stride, pad, windows ``out``.

    ``reach`` is how many elements after the input the last window may see.
    """

    size: Size
    window: int
    stride: int
    pad: int
    out: Size
    reach: int

    @property
    def has_empty(self) -> bool:
        """The last window begins after the input; Caffe drops it only if there is padding."""
        return range_of((self.out - 1) * self.stride - self.size - self.pad).max >= 0

    @property
    def without_empty(self) -> Span:
        if not self.has_empty:
            return self
        return replace(self, out=self.out - 1, reach=self.reach - self.stride)

    @property
    def empty_size(self) -> Size:
        """What Caffe takes for the size of an empty window: 0 or less."""
        return self.size - (self.out - 1) * self.stride

    def beyond(self, padded: int) -> int:
        """How far the last window reaches beyond the input with this much padding."""
        return max(0, self.reach - padded)


@layer_rule("Pooling")
def pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The largest or the mean element of sliding windows; sizes round up, or as ``round_mode`` says.

    Becomes: MaxPool, MaxPoolIndex; Pad and AveragePool; StochasticPool; over sizes that vary Reduce, Gather.
    Bottoms: (N, C, H, W), or (N, C, L, H, W) as in forks. Tops: (N, C, h, w) or (N, C, l, h, w), and with MAX
    of images optionally where in its plane each largest element stands. A last window that would start inside
    the padding is dropped, where there is padding; without padding it may be empty. AVE divides by the
    window's size, clipped to the padded image. STOCHASTIC is the one of the TEST phase.
    ``ceil_mode: false``, of forks, rounds down. ``dilation``, of naibaf7, puts elements of a MAX window apart.
    Forks state ``kernel_size``, ``stride`` and ``pad`` once or once per axis.
    Source: caffe ``src/caffe/layers/pooling_layer.cpp``, ``pooling_layer.cu``; naibaf7/caffe, yjxiong/caffe
    (branch 3D) and caffe3d, the same files.
    """
    expect_axes(layer, 0, x, "(N, C, H, W) or (N, C, L, H, W)", 4, 5)
    param = layer.param
    refuse_fields_of(param, FIELDS_OF_VOLUMES)
    halves = [name for name in ("kernel_h", "kernel_w") if param.HasField(name)]
    if param.kernel_size and len(halves) == 1:
        build.warn(f"{halves[0]} is ignored, as in Caffe: kernel_size is stated")
    is_open = any(isinstance(dim, OpenSize) for dim in x.shape[2:])
    kind = {param.MAX: ReduceKind.MAX, param.AVE: ReduceKind.MEAN}.get(param.pool)
    if param.global_pooling and is_open and len(layer.tops) == 1 and kind is not None:
        geometry(param, (1,) * (len(x.shape) - 2))  # it refuses what Caffe refuses
        return [build.add(Reduce(kind, tuple(range(2, len(x.shape)))), x)]
    windows, strides, pads = geometry(param, x.shape[2:])
    if len(x.shape) > 4:
        _refuse_planar(layer)
    floor = param.round_mode == param.FLOOR or not param.ceil_mode
    dilation = _dilation(layer, len(windows))
    if max(dilation) > 1:
        return [_dilated_max_pool(build, x, windows, strides, pads, dilation, floor=floor)]
    found = spans(x.shape, windows, strides, pads, floor=floor)
    if param.pool == param.MAX and len(layer.tops) == 2:
        return [max_pool(build, x, *found), _max_pool_index(build, x, *found)]
    return [_pooled(build, param, x, *found)]


MOST_OF_HOLES = 256
"""Elements along one axis of a window with holes: each becomes a node."""
FIELDS_OF_VOLUMES = {
    "kernel_depth": "Pooling3D",
    "temporal_stride": "Pooling3D",
    "kernel_shape": "NdPooling",
    "stride_shape": "NdPooling",
    "pad_shape": "NdPooling",
}
"""Fields that Pooling does not read, and the type that does."""


def _refuse_planar(layer: Layer) -> None:
    """Refuse what is defined for images alone. Raises ``UnsupportedLayerError``."""
    if layer.param.pool == layer.param.STOCHASTIC or len(layer.tops) > 1:
        asked = "a mask of the largest elements" if len(layer.tops) > 1 else "STOCHASTIC pooling"
        raise UnsupportedLayerError(
            f"{asked} is supported only for bottoms (N, C, H, W)",
            because="the forks with bottoms of 5 axes compute only MAX and AVE over them, with one top",
            fix=CUT_BEFORE_LAYER,
        )


def _dilation(layer: Layer, spatial: int) -> Sizes:
    """How far apart the elements of a window are along each axis. Raises ``NetError``."""
    param = layer.param
    dilation = per_axis(list(param.dilation), "dilation", spatial, 1)
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
    return dilation


def _dilated_max_pool(
    build: LayerBuilder,
    x: Value,
    windows: Sizes,
    strides: Sizes,
    pads: Sizes,
    dilation: Sizes,
    *,
    floor: bool,
) -> Value:
    """The largest element of windows with holes: for each axis, the largest of shifted images.

    Source: naibaf7/caffe ``src/caffe/layers/pooling_layer.cu``, ``MaxPoolForwardSK``.
    """
    refuse_large("kernel_size", max(windows), MOST_OF_HOLES)
    extents = tuple(step * (window - 1) + 1 for step, window in zip(dilation, windows, strict=True))
    found = spans(x.shape, extents, strides, pads, floor=floor)
    lowest, spatial = float(np.finfo(np.float32).min), len(windows)
    for place, (span, window, step) in enumerate(zip(found, windows, dilation, strict=True)):
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


@layer_rule("SPP")
def spatial_pyramid_pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pooling into 1, 2 x 2, 4 x 4, ... windows, flattened and concatenated.

    Becomes: MaxPool, or Pad and AveragePool, one per level; over sizes that vary Gather, Reduce; Reshape, Concat.
    Bottoms: (N, C, H, W). Tops: (N, C + 4 C + 16 C ...); with ``pyramid_height`` 1, (N, C, 1, 1).
    Source: caffe ``src/caffe/layers/spp_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)", 4)
    height = int(layer.param.pyramid_height)
    if height < 1:
        raise NetError(
            f"pyramid_height is {height}, expected at least 1", fix="set pyramid_height in spp_param"
        )
    if height == 1:
        return [_level(build, layer.param, x, 0)]
    levels = [_level(build, layer.param, x, level) for level in range(height)]
    flat = [
        build.reshape(level, (x.shape[0], element_count(level.shape[1:], "an axis of the bottom")))
        for level in levels
    ]
    return [build.add(Concat(1), *flat)]


def _level(build: LayerBuilder, param: Any, x: Value, level: int) -> Value:
    """One level of the pyramid: its windows tile the padded image."""
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    bins = 2**level
    window = (sizes[0] + bins - 1) // bins, (sizes[1] + bins - 1) // bins
    pad = (window[0] * bins - sizes[0] + 1) // 2, (window[1] * bins - sizes[1] + 1) // 2
    if min(range_of(whole - part).min for whole, part in zip(window, pad, strict=True)) < 1:
        ranges = told_ranges(*sizes)
        raise NetError(
            f"pyramid_height is {param.pyramid_height}, but level {level} cuts {sizes[0]} x {sizes[1]}"
            f" elements into {bins} x {bins} windows",
            because=f"at some sizes the pad around them is as large as a window, where {ranges}"
            if ranges
            else f"this needs a pad of {pad} around windows of {window}, and a pad must be smaller than its window",
            fix=f"use a pyramid_height of at most {level}" + (", or larger smallest sizes" if ranges else ""),
        )
    if any(isinstance(size, OpenSize) for size in sizes):
        return _tiled(build, param, x, bins, window, pad)
    windows, pads = ((fixed(pair[0], "a size"), fixed(pair[1], "a size")) for pair in (window, pad))
    _refuse_padded_stochastic(param, pads)
    return _pooled(build, param, x, *spans(x.shape, windows, windows, pads))


def _tiled(
    build: LayerBuilder, param: Any, x: Value, bins: int, windows: Sequence[Size], pads: Sequence[Size]
) -> Value:
    """``bins`` x ``bins`` windows that tile the padded image, whose sizes vary: axis by axis, as no window is empty."""
    if param.pool == param.STOCHASTIC:
        raise UnsupportedLayerError(
            f"pool is STOCHASTIC, and the size {x.shape[2]} x {x.shape[3]} varies",
            because="only windows of MAX and AVE can vary",
            fix=one_size({name: span for size in x.shape[2:] for name, span in symbols_of(size).items()}),
        )
    is_mean = param.pool == param.AVE
    y = Expression(build, x)
    for axis, window, pad in zip((2, 3), windows, pads, strict=True):
        size = computable(x.shape[axis])
        places = Expression(build, build.counted_numbers(bins * window, "places", first=-pad))
        inside = places.at_least(0).at_most(size - 1)
        y = Expression(build, build.gathered(y.value, inside.value, axis))
        if is_mean:  # the pad counts as zeros; repeated edges do not change which element is the largest
            y = places.equals(inside).reshape(*(1,) * axis, bins * window, *(1,) * (3 - axis)).chosen(y, 0)
        before, behind = y.shape[:axis], y.shape[axis + 1 :]
        parts = y.reshape(*before, bins, window, *behind)
        y = parts.sum(axis + 1) if is_mean else parts.largest(axis + 1)
        y = y.reshape(*before, bins, *behind)
    return (y / (windows[0] * windows[1]) if is_mean else y).value


def _pooled(build: LayerBuilder, param: Any, x: Value, *found: Span) -> Value:
    pool = {param.MAX: max_pool, param.AVE: average_pool, param.STOCHASTIC: _stochastic_pool}
    return pool[param.pool](build, x, *found)


def max_pool(build: LayerBuilder, x: Value, *found: Span) -> Value:
    """The largest element of each window, the lowest number where there is none."""
    lowest = float(np.finfo(np.float32).min)
    return _with_empty(build, build.add(_windows(MaxPool, found), x), found, [lowest] * len(found))


def _max_pool_index(build: LayerBuilder, x: Value, *found: Span) -> Value:
    op = _windows(MaxPoolIndex, found)
    is_open = any(isinstance(dim, OpenSize) for dim in x.shape[2:])
    y = _first_largest(build, x, op) if is_open else build.add(op, x)
    return _with_empty(build, y, found, [-1] * len(found))


def _first_largest(build: LayerBuilder, x: Value, op: MaxPoolIndex) -> Value:
    """What ``MaxPoolIndex`` means, for planes whose size varies: their positions are computed."""
    padded = x
    if any(op.before + op.after):
        padded = build.add(Pad((0, 0, *op.before), (0, 0, *op.after), -math.inf), x, hint="padded")
    seen = laid_out(build, padded, op.window, op.stride, (1, 1))
    items, channels, high, rows, wide, columns = seen.shape
    down, right = (
        elements_seen(build, window, computable(count), stride) - before
        for window, count, stride, before in zip(
            op.window, (rows, columns), op.stride, op.before, strict=True
        )
    )
    places = down.reshape(1, 1, high, rows, 1, 1) * computable(x.shape[3])
    places += right.reshape(1, 1, 1, 1, wide, columns)
    largest = seen.largest(2, 4)
    first = seen.equals(largest).chosen(places.cast(DType.FLOAT32), math.inf).smallest(2, 4)
    found = (largest > float(np.finfo(np.float32).min)).chosen(first, -1)
    return found.reshape(items, channels, rows, columns).value


def average_pool(build: LayerBuilder, x: Value, *found: Span) -> Value:
    """The mean of each window: 0 for a window without elements, NaN for a window of size 0."""
    inner = [span.without_empty for span in found]
    if any(span.pad for span in found):
        around = (0, 0, *(span.pad for span in found))
        x = build.add(Pad(around, around), x)
    after = tuple(span.beyond(2 * span.pad) for span in inner)
    window, stride = tuple(span.window for span in found), tuple(span.stride for span in found)
    y = build.add(AveragePool(window, stride, (0,) * len(found), after), x)
    return _with_empty(build, y, found, [0.0 if span.empty_size else math.nan for span in found])


def _stochastic_pool(build: LayerBuilder, x: Value, *found: Span) -> Value:
    return _with_empty(build, build.add(_windows(StochasticPool, found), x), found, [0] * len(found))


Windows = TypeVar("Windows", MaxPool, MaxPoolIndex, StochasticPool)


def _windows(op: type[Windows], found: Sequence[Span]) -> Windows:
    """The windows that see something, over the image with its padding, which never counts."""
    inner = [span.without_empty for span in found]
    return op(
        tuple(span.window for span in inner),
        tuple(span.stride for span in inner),
        tuple(span.pad for span in inner),
        tuple(span.beyond(span.pad) for span in inner),
    )


def _with_empty(build: LayerBuilder, y: Value, found: Sequence[Span], empty: Sequence[float]) -> Value:
    """``y`` with one more element along each axis whose last windows see nothing: what is ``empty`` there."""
    none = (0,) * len(y.shape)
    edges = [
        (_along(2 + place, len(none), 1, 0), value, span)
        for place, (value, span) in enumerate(zip(empty, found, strict=True))
    ]
    # Where row and column meet, NaN wins: it is written last.
    for after, value, span in sorted(edges, key=lambda edge: math.isnan(edge[1])):
        if span.has_empty:
            y = build.add(Pad(none, after, value), y, hint="empty_windows")
    return y


def spans(shape: Shape, windows: Sizes, strides: Sizes, pads: Sizes, *, floor: bool = False) -> list[Span]:
    """The places of windows along the axes after the channels."""
    found = []
    for place, (window, stride, pad) in enumerate(zip(windows, strides, pads, strict=True)):
        size = computable(shape[2 + place], _NAMES[len(windows)][place])
        room = 2 * pad - window + (0 if floor else stride - 1)
        # Padding on one axis of an image makes Caffe look at both; the forks with volumes look at each axis.
        if any(pads) if len(pads) == 2 else pad:
            room = min(room, pad - 1)  # no window begins after the input and the pad before it
        elif isinstance(size, OpenSize) and room >= 0:
            raise ShapeError(
                f"the stride {strides} is larger than the window {windows}, and the size {size} varies",
                because="at some sizes the last window is empty",
                fix=Worded("use a larger window or a smaller stride, or {}", one_size(size.symbols)),
            )
        out = (size + room) // stride + 1
        if range_of(out).min < 1:
            raise ShapeError(
                f"the window {windows} is larger than the bottom {shape} with its padding",
                because=told_ranges(size),
                fix=larger_smallest(size, "use a smaller window or a larger input"),
            )
        # A window without end over a small image would cost its whole size.
        window = min(window, range_of(size).max + 2 * pad)
        # The windows of an open size reach as far as its roundest size needs: what is added is never seen.
        reach = room + window if isinstance(size, OpenSize) else (out - 1) * stride + window - size
        found.append(Span(size, window, stride, pad, out, fixed(reach, "a size")))
    return found


_NAMES = {2: ("the height", "the width"), 3: ("the length", "the height", "the width")}
"""What the axes after the channels are called, by their number."""


def geometry(param: Any, sizes: Shape) -> tuple[Sizes, Sizes, Sizes]:
    """Windows, strides and pads of a pooling_param, for the sizes of the axes after the channels.

    Raises ``NetError`` where Caffe ends the process.
    """
    windows = _windows_of(param, sizes)
    strides, pads = _sizes(param, "stride", len(sizes), 1), _sizes(param, "pad", len(sizes), 0)
    if min(strides) < 1 or min(windows) < 1:
        raise NetError(
            f"kernel is {windows} and stride {strides}, expected at least 1",
            fix="set both in pooling_param to 1 or more",
        )
    if param.global_pooling and (any(pads) or max(strides) > 1):
        raise NetError("with global_pooling, pad must be 0 and stride 1", fix="remove pad and stride")
    _refuse_padded_stochastic(param, pads)
    if any(pads) and any(pad >= window for pad, window in zip(pads, windows, strict=True)):
        raise NetError(
            f"pad is {pads}, expected less than the kernel {windows}",
            fix="use a smaller pad or a larger kernel",
        )
    return windows, strides, pads


def _refuse_padded_stochastic(param: Any, pads: Sizes) -> None:
    if any(pads) and param.pool == param.STOCHASTIC:
        raise NetError(
            f"pad is {pads}, but pool is STOCHASTIC",
            because="Caffe pads for MAX and AVE only",
            fix="use MAX or AVE, or remove pad",
        )


def _windows_of(param: Any, sizes: Shape) -> Sizes:
    halves = [name for name in ("kernel_h", "kernel_w") if param.HasField(name)]
    stated = [*(["kernel_size"] if param.kernel_size else []), *halves]
    if param.global_pooling:
        if stated:
            raise NetError(
                f"states both global_pooling and {stated[0]}", fix=f"remove {' and '.join(stated)}"
            )
        return tuple(map(fixed, sizes, _NAMES[len(sizes)]))
    if not stated:
        raise NetError("states no kernel size", fix="set kernel_size, or kernel_h and kernel_w")
    if param.kernel_size and len(halves) == 1:
        return per_axis(list(param.kernel_size), "kernel_size", len(sizes))
    return _sizes(param, "kernel", len(sizes))


def _sizes(param: Any, name: str, spatial: int, default: int | None = None) -> Sizes:
    """A size for each axis after the channels: stated once, once per axis, or as ``_h`` and ``_w``."""
    plain = "kernel_size" if name == "kernel" else name
    values = list(getattr(param, plain))
    height, width = f"{name}_h", f"{name}_w"
    stated = [field for field in (height, width) if param.HasField(field)]
    if not stated:
        return per_axis(values, plain, spatial, default)
    if values:
        raise NetError(
            f"states both {plain} and {' and '.join(stated)}",
            fix=f"remove {plain} if height and width differ, else the others",
        )
    if spatial != 2:
        raise NetError(
            f"states {' and '.join(stated)}, but the bottom has {spatial} axes after the channels",
            fix=f"state {plain} once, or {spatial} times",
        )
    if len(stated) == 1:
        raise NetError(
            f"states {stated[0]} alone", fix=f"state both {height} and {width}, or {plain} for both"
        )
    return getattr(param, height), getattr(param, width)
