"""Results whose number of rows depends on data: they have a fixed number of rows, and the first ones count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.detection.lists import LOWEST, KeptBoxes, best_of_rows, lengthened, numbers
from prototrt.surgery.detection.overlaps import Boxes
from prototrt.surgery.ir import AtMost, DType, OpenSize, Size, computable, fixed, open_count, range_of
from prototrt.surgery.ops import TopK

_MOST_PLACES = 1 << 24
"""Places that float32 can count."""


@dataclass(frozen=True, slots=True)
class DetectionRows:
    """Where the rows of a result are in a longer list, in order.

    ``places`` (K,) are indices into the list; ``is_row`` (K,) is true for the first ``count`` (1,) of them,
    which is a whole number.
    """

    places: Value
    is_row: Value
    count: Value

    def filled(self, table: Value) -> Value:
        """These rows of a table (L, columns): (K, columns); after the last one, rows of -1."""
        rows = table.gathered(self.places)
        return self.is_row.reshape(self.is_row.shape[0], 1).chosen(rows, -1)


def beside(columns: Sequence[Value]) -> Value:
    """A table (L, columns) of columns with L elements each, whatever their shape."""
    size = open_count(columns[0].shape, "the length of a list")
    return concatenate([column.reshape(size, 1) for column in columns], 1)


def rows_of_images(kept: KeptBoxes, corners: Boxes, most: int) -> tuple[DetectionRows, Value]:
    """The boxes (N, n) that are kept of N images, at most ``most`` of each: their places, and the table they are in.

    The table (N n, 6) has a row for each box: image, corners, score.
    """
    build = kept.score.build
    images = computable(kept.score.shape[0], "the number of images")
    places = fixed(kept.score.shape[1], "the number of boxes")
    number = build.aligned(build.counted_numbers(images, "image", dtype=DType.FLOAT32), 2, 0)
    image = build.broadcast(number, (images, places), "image")
    rows = chosen_rows(kept.is_kept.reshape(images * places), range_of(images).max * most)
    return rows, beside([image, *corners.parts, kept.score])


def chosen_rows(is_chosen: Value, most: int) -> DetectionRows:
    """The first ``most`` places of a list (L,) where this is true, in their order."""
    build = is_chosen.build
    size = computable(is_chosen.shape[0], "the length of a list")
    largest = range_of(size).max
    if largest > _MOST_PLACES:
        raise UnsupportedLayerError(
            f"decides between {largest} boxes, expected at most {_MOST_PLACES}",
            because="they are counted in float32",
            fix="use a smaller batch or image",
        )
    room = min(most, largest)
    numbers = (
        build.constant(-np.arange(size, dtype=np.float32), "numbers")
        if isinstance(size, int)
        else build.counted_numbers(size, "numbers", step=-1, dtype=DType.FLOAT32)
    )
    chosen = lengthened(is_chosen.chosen(numbers, -largest), 0, room, -largest)
    first, _ = build.add_all(TopK(0, room), chosen, hint="first")
    is_row = first > -largest
    places = is_row.chosen(0 - first, 0).cast(DType.INT32)
    count = is_row.cast(DType.FLOAT32).sum(0).cast(DType.INT32)
    return DetectionRows(places, is_row, count)


def best_of_images(kept: KeptBoxes, images: Size, size: int, most: int) -> Value:
    """Which boxes are among the ``most`` best ones of the ``size`` boxes of their image."""
    lists, each = kept.score.shape
    scores = kept.is_kept.reshape(images, size).chosen(kept.score.reshape(images, size), LOWEST)
    best, places = best_of_rows(scores, most, first_of_equals=True)
    last, last_place = best.slice(1, most - 1), places.slice(1, most - 1)
    is_as_good = scores.equals(last) & ~(numbers(scores.build, size) > last_place)
    is_best = ((scores > last) | is_as_good) & kept.is_kept.reshape(images, size)
    return is_best.reshape(lists, each)


def counted_tops(
    build: Builder, layer: Layer, count: Value, tops: Sequence[Value], axis: int = 0
) -> list[Value]:
    """The tops, with ``count`` (1,) elements that count along an axis, the first ones; the count becomes an output."""
    name = build.count(f"{layer.top_blob(0)}_count", count)
    return [build.counted(top, axis, name) for top in tops]


def counted_top(build: Builder, layer: Layer, index: int, top: Value, count: Value) -> Value:
    """A top with ``count`` (1,) rows of its own, the first ones; the count becomes an output."""
    return build.counted(top, 0, build.count(f"{layer.top_blob(index)}_count", count))


def concatenate_rows(build: Builder, layer: Layer, parts: Sequence[Value]) -> Value:
    """The rows of several values one after the other, without those that do not count; top 0 of the layer."""
    masks = []
    for part in parts:
        mask = is_counted(build, part)
        ones = np.ones(fixed(part.shape[0], "the number of rows"), np.bool_)
        masks.append(build.constant(ones, "is_row") if mask is None else mask)
    is_row = concatenate(masks, 0)
    rows = chosen_rows(is_row, fixed(is_row.shape[0], "the number of rows"))
    table = concatenate(parts, 0)
    return counted_top(build, layer, 0, table.gathered(rows.places), rows.count)


def counted_rows(build: Builder, x: Value, like: Value) -> Value:
    """``x``, of whose rows as many count as of another value."""
    rows = like.shape[0]
    return build.counted(x, 0, rows.count) if isinstance(rows, AtMost) else x


def is_counted(build: Builder, x: Value) -> Value | None:
    """Which rows of x count, (rows,); None if all of them do."""
    rows = x.shape[0]
    if not isinstance(rows, AtMost):
        return None
    return build.counted_numbers(int(rows), "rows") < build.counts[rows.count]


def detections(build: Builder, layer: Layer, rows: DetectionRows, table: Value, images: Size) -> list[Value]:
    """The top of a layer that detects, (1, 1, K, 7): these rows of a table (L, 7). Other forks have more columns.

    Where nothing is found, the forks give one row for each image: its number, then -1.
    """
    columns = fixed(table.shape[1], "the number of columns")
    table_rows = rows.filled(table)
    size, most_images = fixed(table_rows.shape[0], "the number of rows"), range_of(images).max
    least = max(size, most_images)
    if least > size:
        missing = build.constant(np.full((least - size, columns), -1, np.float32), "missing")
        table_rows = concatenate([table_rows, missing], 0)
    empty = np.full((least, columns), -1, np.float32)
    empty[:most_images, 0] = np.arange(most_images)
    nothing = build.constant(empty, "nothing")
    if isinstance(images, OpenSize):
        nothing = (nothing < images).chosen(nothing, -1)  # the numbers of images that there are
    is_any = rows.count > 0
    result = is_any.reshape(1, 1).chosen(table_rows, nothing)
    count = is_any.chosen(rows.count, images)
    return counted_tops(build, layer, count, [result.reshape(1, 1, least, columns)], axis=2)
