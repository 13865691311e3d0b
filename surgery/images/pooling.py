"""Pooling, in all frameworks: where windows stand, and what they see of the input and of what is around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.images.windows import Sizes, SlidingWindow
from prototrt.surgery.ir import OpenSize, Shape, Size, computable, fixed, range_of
from prototrt.surgery.ops import AveragePool, MaxPool, MaxPoolIndex, Pad, Slice, StochasticPool
from prototrt.surgery.ops.windows import larger_smallest, ranges_text

LOWEST = float(np.finfo(np.float32).min)
Drops: TypeAlias = Literal["any", "each", "never"]
"""Which windows go that would begin after the input: all if any axis has padding, those of axes with padding, none."""


@dataclass(frozen=True, slots=True)
class Span:
    """Pooling windows along one axis: input ``size``, window, stride, pads before it and ``after`` it, windows ``out``.

    ``reach`` is how many elements after the input the last window may see. ``has_empty``: the last window begins after
    the input, at some sizes at least. Caffe drops it only if there is padding.
    """

    size: Size
    window: int
    stride: int
    pad: int
    after: int
    out: Size
    reach: int
    has_empty: bool

    @property
    def without_empty(self) -> Span:
        if not self.has_empty:
            return self
        if isinstance(self.size, OpenSize):
            out = (self.size - 1) // self.stride + 1
            return replace(self, out=out, reach=self.window - 1, has_empty=False)
        return replace(self, out=self.out - 1, reach=self.reach - self.stride, has_empty=False)

    @property
    def empty_size(self) -> Size:
        """What Caffe takes for the size of an empty window: 0 or less."""
        return self.size - (self.out - 1) * self.stride

    def beyond(self, padded: int) -> int:
        """How far the last window reaches beyond the input with this much padding."""
        return max(0, self.reach - padded)


def spans(shape: Shape, window: SlidingWindow, *, floor: bool = False, drops: Drops = "any") -> list[Span]:
    """The places of windows along the axes after the channels of (N, C, H, W) or (N, C, L, H, W), between pads.

    Raises ``ShapeError`` where no window fits.
    """
    result, is_padded = [], any(window.before + window.after)
    places = zip(window.extents, window.stride, window.before, window.after, strict=True)
    for axis, (extent, stride, pad, end) in enumerate(places, 2):
        size = computable(shape[axis], f"axis {axis}")
        room = pad + end - extent + (0 if floor else stride - 1)
        if (drops == "any" and is_padded) or (drops == "each" and pad + end):
            room = min(room, pad - 1)  # no window begins after the input and the pad before it
        if range_of((size + room) // stride + 1).min < 1:
            raise ShapeError(
                f"the window {window.extents} is larger than the shape {shape} with its padding",
                because=ranges_text(size),
                fix=larger_smallest(size, "use a smaller window or a larger input"),
            )
        result.append(_span(size, extent, stride, (pad, end), room))
    return result


def _span(size: Size, window: int, stride: int, pads: tuple[int, int], room: int) -> Span:
    """The windows along one axis. ``room`` is where the last of them may begin, less the size."""
    pad, after = pads
    out = (size + room) // stride + 1
    # A window without end over a small image would cost its whole size.
    window = min(window, range_of(size).max + pad + after)
    if isinstance(
        size, OpenSize
    ):  # its windows reach as far as its roundest size needs: what is added is never seen
        return Span(size, window, stride, pad, after, out, room + window, has_empty=room >= pad)
    last = fixed(out - 1, "a size") * stride
    return Span(size, window, stride, pad, after, out, last + window - size, has_empty=last >= size + pad)


def max_pool(build: Builder, x: Value, axis_spans: Sequence[Span]) -> Value:
    """The largest element of each window, the lowest number where there is none."""
    return with_empty(build, build.add(windows_op(MaxPool, axis_spans), x), axis_spans, LOWEST)


def mean_with_padding(build: Builder, x: Value, axis_spans: Sequence[Span]) -> Value:
    """The mean of each window, in which the padding counts."""
    before, after = tuple(span.pad for span in axis_spans), tuple(span.after for span in axis_spans)
    if any(before + after):
        x = build.add(Pad((0, 0, *before), (0, 0, *after)), x)
    beyond = tuple(span.without_empty.beyond(span.pad + span.after) for span in axis_spans)
    window, stride = tuple(span.window for span in axis_spans), tuple(span.stride for span in axis_spans)
    op = AveragePool(window, stride, (0,) * len(axis_spans), beyond)
    return _with_empty_means(build, build.add(op, x), axis_spans)


def mean_of_elements(build: Builder, x: Value, axis_spans: Sequence[Span]) -> Value:
    """The mean of each window, in which the padding does not count."""
    return _with_empty_means(build, build.add(windows_op(AveragePool, axis_spans), x), axis_spans)


def stochastic_pool(build: Builder, x: Value, axis_spans: Sequence[Span]) -> Value:
    """The mean of each window, weighted by its elements."""
    return with_empty(build, build.add(windows_op(StochasticPool, axis_spans), x), axis_spans, 0)


def _with_empty_means(build: Builder, y: Value, axis_spans: Sequence[Span]) -> Value:
    """``y`` with the means of empty windows: 0 for a window without elements, NaN for a window of size 0."""
    y = with_empty(build, y, axis_spans, *(0.0 if span.empty_size else math.nan for span in axis_spans))
    for axis, span in enumerate(axis_spans, 2):
        if span.has_empty and isinstance(span.size, OpenSize):  # at the sizes where one begins right after it
            starts = build.counted_numbers(span.out, "windows") * span.stride
            behind = (1,) * (len(y.shape) - axis - 1)
            y = starts.reshape(*(1,) * axis, span.out, *behind).equals(span.size).chosen(math.nan, y)
    return y


Windows = TypeVar("Windows", AveragePool, MaxPool, MaxPoolIndex, StochasticPool)


def windows_op(op: type[Windows], axis_spans: Sequence[Span]) -> Windows:
    """The windows that see something, over the image with its padding, which never counts."""
    inner = [span.without_empty for span in axis_spans]
    return op(
        tuple(span.window for span in inner),
        tuple(span.stride for span in inner),
        tuple(span.pad for span in inner),
        tuple(span.beyond(span.pad) for span in inner),
    )


def with_empty(build: Builder, y: Value, axis_spans: Sequence[Span], *empty: float) -> Value:
    """``y`` with one more element along each axis whose last windows see nothing: ``empty`` there, once or for each."""
    rank = len(y.shape)
    each = empty * len(axis_spans) if len(empty) == 1 else empty
    # Where row and column meet, NaN wins: it is written last.
    for axis, (value, span) in sorted(
        enumerate(zip(each, axis_spans, strict=True), 2), key=lambda edge: math.isnan(edge[1][0])
    ):
        if span.has_empty:
            y = build.add(Pad((0,) * rank, sizes_along(axis, rank, 1, 0), value), y, hint="empty_windows")
            if isinstance(span.size, OpenSize):  # at some sizes none is empty
                y = build.add(Slice(axis, 0, span.out), y, hint="windows")
    return y


def sizes_along(axis: int, axes: int, size: int, others: int) -> Sizes:
    """``size`` along one of the axes."""
    return tuple(size if place == axis else others for place in range(axes))
