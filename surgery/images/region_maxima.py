"""The largest elements of the bins of regions: see docs/decisions.md, 0012."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.images.rois import Rois, counted_from, rounded
from prototrt.surgery.ir import DType, Size, computable, fixed, range_of
from prototrt.surgery.ops import MaxPool


def pooled_regions(build: Builder, x: Value, regions: Rois, size: tuple[int, int], scale: float) -> Value:
    """The largest element of each bin: (R, C, rows, columns)."""
    rows = bins_along(build, regions.top * scale, regions.bottom * scale, size[0], regions.height)
    columns = bins_along(build, regions.left * scale, regions.right * scale, size[1], regions.width)
    largest = largest_in_bins(Maxima.of(build, x), regions, rows, columns)
    is_empty = rows.along(rows.is_empty, 1, 4) | columns.along(columns.is_empty, 2, 4)
    return is_empty.chosen(0, largest).transpose(0, 3, 1, 2)


@dataclass(frozen=True, slots=True)
class Bins:
    """Along one axis, (R, bins) each: two windows of 2^level elements that cover a bin, by their first elements.

    All are int32. An empty bin has arbitrary windows on the map.
    """

    level: Value
    first: Value
    second: Value
    is_empty: Value

    def along(self, x: Value, axis: int, rank: int) -> Value:
        """One of these, its bins along an axis of several."""
        count, bins = x.shape
        return x.reshape(count, *(bins if place == axis else 1 for place in range(1, rank)))


def bins_along(build: Builder, start: Value, end: Value, count: int, size: Size) -> Bins:
    start = rounded(start)
    side = (rounded(end) - start + 1).at_least(1) / count
    bins = counted_from(build, 0, count, 2, 1)
    low, high = (bins * side).floor() + start, ((bins + 1) * side).ceil() + start
    low, high = (edge.at_least(0).at_most(size) for edge in (low, high))
    is_empty = low >= high
    length = is_empty.chosen(1, high - low).cast(DType.INT32)
    low, high = (is_empty.chosen(other, edge) for edge, other in ((low, 0.0), (high, 1.0)))
    largest = range_of(size).max
    level = _constant(build, [0, *(length.bit_length() - 1 for length in range(1, largest + 1))]).gathered(
        length
    )
    reach = _constant(build, [1 << place for place in range(largest.bit_length())]).gathered(level)
    return Bins(level, low.cast(DType.INT32), high.cast(DType.INT32) - reach, is_empty)


@dataclass(frozen=True, slots=True)
class Maxima:
    """The largest elements of all windows of 2^i x 2^j, as rows (K, C) of a table.

    ``starts`` and ``widths`` (int32) say for i and j where those windows begin in an image's rows of the table, and how
    many there are side by side. Level j counts fastest; there are ``levels`` of them. On a map whose size varies, all
    kinds of windows are as many as elements: some reach over the end, and no bin reads these.
    """

    rows: Value
    an_image: Size
    starts: Value
    widths: Value
    levels: int

    @classmethod
    def of(cls, build: Builder, x: Value) -> Maxima:
        images, channels = computable(x.shape[0]), fixed(x.shape[1], "axis 1 (channels)")
        parts: list[Value] = []
        starts: list[Size] = [0]
        widths: list[Size] = []
        for tall in _window_maxima(build, x, 2):
            for wide in _window_maxima(build, tall, 3):
                height, width = (computable(dim) for dim in wide.shape[2:])
                parts.append(wide.reshape(images, channels, height * width))
                starts.append(starts[-1] + height * width)
                widths.append(width)
        rows = concatenate(parts, 2).transpose(0, 2, 1).reshape(images * starts[-1], channels)
        levels = range_of(computable(x.shape[3])).max.bit_length()
        return cls(rows, starts[-1], *_tables(build, starts[:-1], widths), levels)


def _window_maxima(build: Builder, x: Value, axis: int) -> list[Value]:
    """The largest elements of all windows of 1, 2, 4, ... elements along an axis of x (N, C, H, W)."""
    tables, size = [x], computable(x.shape[axis])
    for level in range(range_of(size).max.bit_length() - 1):
        # A window over 2^level + 1 of the windows before is one of twice as many elements.
        reach = (1 << level) + 1
        window = (reach, 1) if axis == 2 else (1, reach)
        over_end = 0 if isinstance(size, int) else 1 << level
        after = (over_end, 0) if axis == 2 else (0, over_end)
        tables.append(build.add(MaxPool(window, (1, 1), (0, 0), after), tables[-1], hint="maxima"))
    return tables


def largest_in_bins(maxima: Maxima, rois: Rois, rows: Bins, columns: Bins) -> Value:
    """The largest element of each bin, of four windows that cover it: (R, pooled_h, pooled_w, C)."""
    kind = rows.along(rows.level, 1, 3) * maxima.levels + columns.along(columns.level, 2, 3)
    count = rois.image.shape[0]
    start = rois.origins(maxima.an_image).reshape(count, 1, 1) + maxima.starts.gathered(kind)
    width = maxima.widths.gathered(kind)
    tops = [start + rows.along(first, 1, 3) * width for first in (rows.first, rows.second)]
    lefts = [columns.along(first, 2, 3) for first in (columns.first, columns.second)]
    corners = [maxima.rows.gathered(top + left) for top in tops for left in lefts]
    return corners[0].at_least(corners[1]).at_least(corners[2].at_least(corners[3]))


def _tables(build: Builder, starts: list[Size], widths: list[Size]) -> tuple[Value, Value]:
    """Both as tables, int32. Where sizes vary, each kind of windows has as many of them."""
    fixed_starts, fixed_widths = (
        [size for size in sizes if isinstance(size, int)] for sizes in (starts, widths)
    )
    if len(fixed_starts) == len(starts) and len(fixed_widths) == len(widths):
        return _constant(build, fixed_starts), _constant(build, fixed_widths)
    step = starts[1] if len(starts) > 1 else 0
    width = build.counted_numbers(1, "table", first=widths[0])
    return (build.counted_numbers(len(starts), "table", step=step), build.broadcast(width, (len(widths),)))


def _constant(build: Builder, numbers: list[int]) -> Value:
    return build.constant(np.array(numbers, np.int32), "table")
