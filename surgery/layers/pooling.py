"""Sliding windows without weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.surgery.expansion.layer_builder import LayerBuilder, expect_axes, layer_rule, refuse_fields_of
from prototrt.surgery.expansion.limits import refuse_large
from prototrt.surgery.ir import OpenSize, Shape, Size, Value, computable, element_count, fixed, range_of
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

Pair = tuple[int, int]


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

    Becomes: MaxPool, MaxPoolIndex; Pad and AveragePool; StochasticPool; Reduce over sizes that vary.
    Bottoms: (N, C, H, W). Tops: (N, C, h, w), and with MAX optionally where in its plane
    each largest element stands. A last window that would start inside the padding is
    dropped, where there is padding; without padding it may be empty. AVE divides by the
    window's size, clipped to the padded image. STOCHASTIC is the one of the TEST phase.
    ``ceil_mode: false``, of forks, rounds down. ``dilation``, of naibaf7, puts elements of a MAX window apart.
    Source: caffe ``src/caffe/layers/pooling_layer.cpp``, ``pooling_layer.cu``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)", 4)
    param = layer.param
    refuse_fields_of(param, FIELDS_OF_VOLUMES)
    halves = [name for name in ("kernel_h", "kernel_w") if param.HasField(name)]
    if param.HasField("kernel_size") and len(halves) == 1:
        build.warn(f"{halves[0]} is ignored, as in Caffe: kernel_size is stated")
    is_open = any(isinstance(dim, OpenSize) for dim in x.shape[2:])
    kind = {param.MAX: ReduceKind.MAX, param.AVE: ReduceKind.MEAN}.get(param.pool)
    if param.global_pooling and is_open and len(layer.tops) == 1 and kind is not None:
        geometry(param, (1, 1))  # it refuses what Caffe refuses
        return [build.add(Reduce(kind, (2, 3)), x)]
    windows, strides, pads = geometry(param, x.shape[2:])
    floor = param.round_mode == param.FLOOR or not param.ceil_mode
    dilation = _dilation(layer)
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


def _dilation(layer: Layer) -> Pair:
    """How far apart the elements of a window are. Raises ``NetError``."""
    param = layer.param
    stated = [int(step) for step in param.dilation] or [1]
    if len(stated) > 2 or min(stated) < 1:
        raise NetError(
            f"dilation is {stated}, expected one or two numbers of at least 1",
            fix="state the distance between the elements of a window",
        )
    dilation = stated[0], stated[-1]
    if max(dilation) > 1 and (param.pool != param.MAX or len(layer.tops) > 1):
        raise UnsupportedLayerError(
            f"dilation is {stated}, which is supported only for MAX with one top",
            fix=CUT_BEFORE_LAYER,
        )
    return dilation


def _dilated_max_pool(
    build: LayerBuilder, x: Value, windows: Pair, strides: Pair, pads: Pair, dilation: Pair, *, floor: bool
) -> Value:
    """The largest element of windows with holes: for each axis, the largest of shifted images.

    Source: naibaf7/caffe ``src/caffe/layers/pooling_layer.cu``, ``MaxPoolForwardSK``.
    """
    refuse_large("kernel_size", max(windows), MOST_OF_HOLES)
    extents = [step * (window - 1) + 1 for step, window in zip(dilation, windows, strict=True)]
    rows, columns = spans(x.shape, (extents[0], extents[1]), strides, pads, floor=floor)
    lowest = float(np.finfo(np.float32).min)
    for axis, span, window, step in (
        (2, rows, windows[0], dilation[0]),
        (3, columns, windows[1], dilation[1]),
    ):
        before, after = [0, 0, 0, 0], [0, 0, 0, 0]
        before[axis], after[axis] = span.pad, span.beyond(span.pad)
        if span.pad or after[axis]:
            x = build.add(Pad(tuple(before), tuple(after), lowest), x, hint="padded")
        size = (span.out - 1) * span.stride + 1
        shifted = [build.add(Slice(axis, place * step, size), x) for place in range(window)]
        x = reduce(partial(build.add, MAXIMUM), shifted)
        stride = (span.stride, 1) if axis == 2 else (1, span.stride)
        x = build.add(MaxPool((1, 1), stride, (0, 0), (0, 0)), x, hint="strided") if span.stride > 1 else x
    return x


@layer_rule("SPP")
def spatial_pyramid_pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pooling into 1, 2 x 2, 4 x 4, ... windows, flattened and concatenated.

    Becomes: MaxPool, or Pad and AveragePool, one per level; Reshape, Concat.
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
    sizes = fixed(x.shape[2], "the height"), fixed(x.shape[3], "the width")
    bins = 2**level
    window = -(-sizes[0] // bins), -(-sizes[1] // bins)
    pad = (window[0] * bins - sizes[0] + 1) // 2, (window[1] * bins - sizes[1] + 1) // 2
    if pad[0] >= window[0] or pad[1] >= window[1]:
        raise NetError(
            f"pyramid_height is {param.pyramid_height}, but level {level} cuts {sizes[0]} x {sizes[1]}"
            f" elements into {bins} x {bins} windows",
            because=f"this needs a pad of {pad} around windows of {window}, and a pad must be smaller than its window",
            fix=f"use a pyramid_height of at most {level}",
        )
    _refuse_padded_stochastic(param, pad)
    return _pooled(build, param, x, *spans(x.shape, window, window, pad))


def _pooled(build: LayerBuilder, param: Any, x: Value, rows: Span, columns: Span) -> Value:
    pool = {param.MAX: max_pool, param.AVE: average_pool, param.STOCHASTIC: _stochastic_pool}
    return pool[param.pool](build, x, rows, columns)


def max_pool(build: LayerBuilder, x: Value, rows: Span, columns: Span) -> Value:
    """The largest element of each window, the lowest number where there is none."""
    lowest = float(np.finfo(np.float32).min)
    inner = rows.without_empty, columns.without_empty
    return _with_empty(build, build.add(_windows(MaxPool, *inner), x), rows, columns, lowest, lowest)


def _max_pool_index(build: LayerBuilder, x: Value, rows: Span, columns: Span) -> Value:
    inner = rows.without_empty, columns.without_empty
    return _with_empty(build, build.add(_windows(MaxPoolIndex, *inner), x), rows, columns, -1, -1)


def average_pool(build: LayerBuilder, x: Value, rows: Span, columns: Span) -> Value:
    """The mean of each window: 0 for a window without elements, NaN for a window of size 0."""
    inner = rows.without_empty, columns.without_empty
    if rows.pad or columns.pad:
        x = build.add(Pad((0, 0, rows.pad, columns.pad), (0, 0, rows.pad, columns.pad)), x)
    after = tuple(span.beyond(2 * span.pad) for span in inner)
    window, stride = (rows.window, columns.window), (rows.stride, columns.stride)
    y = build.add(AveragePool(window, stride, (0, 0), after), x)
    of_rows, of_columns = (0.0 if span.empty_size else math.nan for span in (rows, columns))
    return _with_empty(build, y, rows, columns, of_rows, of_columns)


def _stochastic_pool(build: LayerBuilder, x: Value, rows: Span, columns: Span) -> Value:
    inner = rows.without_empty, columns.without_empty
    return _with_empty(build, build.add(_windows(StochasticPool, *inner), x), rows, columns, 0, 0)


def _windows(
    op: type[MaxPool] | type[MaxPoolIndex] | type[StochasticPool], rows: Span, columns: Span
) -> MaxPool | MaxPoolIndex | StochasticPool:
    """The windows over the image with its padding, which never counts."""
    pad = (rows.pad, columns.pad)
    after = (rows.beyond(rows.pad), columns.beyond(columns.pad))
    return op((rows.window, columns.window), (rows.stride, columns.stride), pad, after)


def _with_empty(
    build: LayerBuilder, y: Value, rows: Span, columns: Span, of_rows: float, of_columns: float
) -> Value:
    """``y`` with a last row and a last column for the windows that see nothing."""
    edges = [((0, 0, 1, 0), of_rows, rows), ((0, 0, 0, 1), of_columns, columns)]
    # Where row and column meet, NaN wins: it is written last.
    for after, value, span in sorted(edges, key=lambda edge: math.isnan(edge[1])):
        if span.has_empty:
            y = build.add(Pad((0, 0, 0, 0), after, value), y, hint="empty_windows")
    return y


def spans(
    shape: Shape,
    windows: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int],
    *,
    floor: bool = False,
) -> tuple[Span, Span]:
    """The places of windows along height and width."""
    sizes = [computable(shape[2], "the height"), computable(shape[3], "the width")]
    found = []
    for size, window, stride, pad in zip(sizes, windows, strides, pads, strict=True):
        room = 2 * pad - window + (0 if floor else stride - 1)
        if any(pads):  # padding on one axis makes Caffe look at both
            room = min(room, pad - 1)  # no window begins after the input and the pad before it
        elif isinstance(size, OpenSize) and room >= 0:
            raise ShapeError(
                f"the stride {strides} is larger than the window {windows}, and the size {size} varies",
                because="at some sizes the last window is empty",
                fix=Worded(
                    "use a larger window or a smaller stride, or give {} one size in {} and {}",
                    " and ".join(size.symbols),
                    Option("min_shapes"),
                    Option("max_shapes"),
                ),
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
    return found[0], found[1]


def geometry(param: Any, sizes: Shape) -> tuple[Pair, Pair, Pair]:
    """Windows, strides and pads of a pooling_param, for a height and a width.

    Raises ``NetError`` where Caffe ends the process.
    """
    windows = _windows_of(param, sizes)
    strides, pads = _pair(param, "stride", 1), _pair(param, "pad", 0)
    if min(strides) < 1 or min(windows) < 1:
        raise NetError(
            f"kernel is {windows} and stride {strides}, expected at least 1",
            fix="set both in pooling_param to 1 or more",
        )
    if param.global_pooling and (any(pads) or strides != (1, 1)):
        raise NetError("with global_pooling, pad must be 0 and stride 1", fix="remove pad and stride")
    _refuse_padded_stochastic(param, pads)
    if any(pads) and any(pad >= window for pad, window in zip(pads, windows, strict=True)):
        raise NetError(
            f"pad is {pads}, expected less than the kernel {windows}",
            fix="use a smaller pad or a larger kernel",
        )
    return windows, strides, pads


def _refuse_padded_stochastic(param: Any, pads: Pair) -> None:
    if any(pads) and param.pool == param.STOCHASTIC:
        raise NetError(
            f"pad is {pads}, but pool is STOCHASTIC",
            because="Caffe pads for MAX and AVE only",
            fix="use MAX or AVE, or remove pad",
        )


def _windows_of(param: Any, sizes: Shape) -> Pair:
    stated = [name for name in ("kernel_size", "kernel_h", "kernel_w") if param.HasField(name)]
    if param.global_pooling:
        if stated:
            raise NetError(
                f"states both global_pooling and {stated[0]}", fix=f"remove {' and '.join(stated)}"
            )
        return fixed(sizes[0], "the height"), fixed(sizes[1], "the width")
    if not stated:
        raise NetError("states no kernel size", fix="set kernel_size, or kernel_h and kernel_w")
    if param.HasField("kernel_size") and len(stated) == 2:
        return int(param.kernel_size), int(param.kernel_size)
    return _pair(param, "kernel", 0)


def _pair(param: Any, name: str, default: int) -> Pair:
    """A size for height and width, stated once or as ``_h`` and ``_w``."""
    plain = "kernel_size" if name == "kernel" else name
    height, width = f"{name}_h", f"{name}_w"
    stated = [field for field in (height, width) if param.HasField(field)]
    if stated and param.HasField(plain):
        raise NetError(
            f"states both {plain} and {' and '.join(stated)}",
            fix=f"remove {plain} if height and width differ, else the others",
        )
    if len(stated) == 1:
        raise NetError(
            f"states {stated[0]} alone", fix=f"state both {height} and {width}, or {plain} for both"
        )
    if stated:
        return getattr(param, height), getattr(param, width)
    size = getattr(param, plain) if param.HasField(plain) else default
    return size, size
