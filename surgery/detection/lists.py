"""Lists of boxes with a score each, computed side by side: the best ones, and elements that indices pick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Shape, Size, computable, range_of
from prototrt.surgery.ops import Pad, TopK

LOWEST = float(np.finfo(np.float32).min)
"""The score of boxes that are not candidates: lower than that of any candidate."""


@dataclass(frozen=True, slots=True)
class KeptBoxes:
    """What is left of each list of boxes: (lists, most), by falling score, in places from 0 on.

    ``index`` counts in the list; where ``is_kept`` is false, a place is free, and its index is any.
    """

    index: Value
    score: Value
    is_kept: Value


def picked(rows: Value, index: Value) -> Value:
    """Of rows (R, n) the elements that ``index`` (R, m) counts, row by row: (R, m)."""
    build = rows.build
    count, size = (computable(dim, "the number of boxes") for dim in rows.shape)
    starts = build.reshape(build.counted_numbers(count, "starts", step=size), (count, 1))
    places = index if count == 1 else index + starts
    return rows.reshape(count * size).gathered(places)


def lengthened(x: Value, axis: int, least: int, filler: float) -> Value:
    """``x`` with as many fillers at the end of an axis as it needs to have ``least`` elements at every size."""
    missing = least - range_of(computable(x.shape[axis], "the number of boxes")).min
    if missing <= 0:
        return x
    behind = tuple(missing if each == axis else 0 for each in range(len(x.shape)))
    pad = Pad((0,) * len(behind), behind, filler)
    return x.build.add(pad, x, hint="lengthened")


def best_of_rows(scores: Value, count: int, first_of_equals: bool) -> tuple[Value, Value]:
    """The largest of each row, from the largest on, and their indices."""
    values, places = scores.build.add_all(TopK(1, count, first_of_equals), scores, hint="best")
    return values, places


def numbers(build: Builder, count: Size) -> Value:
    """0, 1, 2, ... as a row."""
    return build.reshape(build.counted_numbers(count, "numbers"), (1, count))


def repeat_number(build: Builder, shape: Shape, number: np.generic, hint: str) -> Value:
    """A constant of this shape that repeats one number, or a Tile of one where a size varies."""
    sizes = tuple(computable(dim, "the number of boxes") for dim in shape)
    one = build.constant(np.full([dim if isinstance(dim, int) else 1 for dim in sizes], number), hint)
    return build.broadcast(one, sizes, hint)


def body_inputs(build: Builder, hints: Sequence[str], outside: Sequence[Value]) -> list[Value]:
    """The inputs of a body that read these values."""
    return [
        build.body_input(hint, each.shape, each.dtype) for hint, each in zip(hints, outside, strict=False)
    ]
