"""Greedy suppression of boxes, exactly and in a fixed size: see docs/decisions.md, 0010."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.detection.blocks import suppress_in_blocks, suppress_in_groups
from prototrt.surgery.detection.lists import (
    LOWEST,
    KeptBoxes,
    best_of_rows,
    body_inputs,
    lengthened,
    numbers,
    picked,
    repeat_number,
)
from prototrt.surgery.detection.overlaps import NATIVE, Boxes, Decay, Suppression
from prototrt.surgery.ir import DType, OpenSize, computable, fixed, range_of
from prototrt.surgery.ops import NonMaxSuppression, While

MOST_NATIVE = 5000
"""Boxes of a list that TensorRT's NMS looks at."""
MOST_IN_GROUPS = 512
"""Boxes of a list that rounds of a fixed number decide: the number grows with them."""
MOST_PAIRS = 1 << 24
"""Pairs of boxes of all lists that they, or parts for layers, compare; rounds that end early compare fewer."""


def suppressed(
    scores: Value, is_candidate: Value, boxes: Boxes, rule: Suppression, *, before: int, most: int
) -> KeptBoxes:
    """Suppress in every list by itself: scores, candidates and the parts of boxes are (lists, n).

    Only the best ``before`` candidates of a list enter, only the first ``most`` are looked for.
    """
    lists, size = (computable(dim, "the number of boxes") for dim in scores.shape)
    largest = range_of(size).max
    before, most = min(before, largest), min(most, before, largest)
    marked = is_candidate.chosen(scores, LOWEST)
    if rule.decay is not None:
        assert before == largest, "soft suppression lowers the scores of all boxes"
        return _softly(marked, boxes, rule, rule.decay, most)
    has_layer = rule.native_threshold is not None and isinstance(lists, int)
    pairs_of_parts = sum(begin * (end - begin) for begin, end in _parts(before))
    is_native = has_layer and range_of(lists).max * pairs_of_parts <= MOST_PAIRS
    is_small = before <= MOST_IN_GROUPS and range_of(lists).max * before**2 <= MOST_PAIRS
    if not is_native and not is_small:
        return suppress_in_blocks(marked, boxes, rule, before=before, most=most)
    best, places = best_of_rows(lengthened(marked, 1, before, LOWEST), before, rule.first_of_equals)
    if isinstance(size, OpenSize):
        places = places.at_most(size - 1)  # those behind the list are no candidates
    sorted_boxes = boxes.map(lambda part: picked(part, places))
    decide = _natively if is_native else suppress_in_groups
    return KeptBoxes(places, best, _first(decide(best > LOWEST, sorted_boxes, rule), most))


def _natively(is_candidate: Value, boxes: Boxes, rule: Suppression) -> Value:
    """Which boxes of sorted lists are kept, decided by layers of the backend: of a long list, in parts."""
    assert rule.native_threshold is not None
    layer, parts = NonMaxSuppression(rule.native_threshold), list[tuple[Value, Boxes]]()
    for begin, end in _parts(fixed(is_candidate.shape[1], "the number of boxes")):
        candidates, *sides = (part.slice(1, begin, end - begin) for part in (is_candidate, *boxes.parts))
        mine = Boxes(*sides)
        for kept, others in parts:
            reach = rule.reach(rule.overlap(others.map(_column), mine.map(_row)))
            reached = _column(kept).chosen(reach, 0).largest(1).reshape(*candidates.shape)
            candidates = candidates & ~(reached > 0)
        corners = concatenate([_column(part) for part in NATIVE[rule.overlap](mine).parts], 2)
        parts.append((is_candidate.build.add(layer, corners, candidates, hint="kept"), mine))
    return concatenate([kept for kept, _ in parts], 1)


def _parts(size: int) -> list[tuple[int, int]]:
    """Begin and end of the parts of a list that a layer looks at."""
    return [(begin, min(begin + MOST_NATIVE, size)) for begin in range(0, size, MOST_NATIVE)]


def _column(part: Value) -> Value:
    return part.reshape(*part.shape, 1)


def _row(part: Value) -> Value:
    return part.reshape(part.shape[0], 1, *part.shape[1:])


def _first(is_kept: Value, most: int) -> Value:
    """The first ``most`` of what is kept in each list: counted in rows of a table, then along the rows."""
    lists, size = is_kept.shape[0], fixed(is_kept.shape[1], "the number of boxes")
    if most >= size:
        return is_kept
    columns = int(np.ceil(np.sqrt(size)))
    rows = -(-size // columns)
    # Sums, not products: where products compute in float16, they count to 2048.
    table = lengthened(is_kept.cast(DType.FLOAT32), 1, rows * columns, 0).reshape(lists, rows, columns)
    in_rows = table.sum(2).reshape(lists, 1, rows)
    before_row = (in_rows * _is_before(is_kept, 1, rows)).sum(2)
    in_row = (table.reshape(lists, rows, 1, columns) * _is_before(is_kept, 1, 1, columns)).sum(3)
    before = in_row.reshape(lists, rows, columns) + before_row
    return is_kept & (before.reshape(lists, rows * columns).slice(1, 0, size) < most)


def _is_before(is_kept: Value, *axes: int) -> Value:
    """Of two places (..., size, size), 1 where the second one is before the first."""
    before = np.tri(axes[-1], k=-1, dtype=np.float32).reshape(*axes, axes[-1])
    return is_kept.build.constant(before, "before")


def _softly(scores: Value, boxes: Boxes, rule: Suppression, decay: Decay, most: int) -> KeptBoxes:
    """The best candidate of each list, then the best one after the first has lowered the scores, and so on."""
    lists, size = (computable(dim, "the number of boxes") for dim in scores.shape)
    build = scores.build
    states = {
        "count": repeat_number(build, (lists, 1), np.int32(0), "count"),
        "scores": scores,
        "index": repeat_number(build, (lists, most), np.int32(0), "index"),
        "score": repeat_number(build, (lists, most), np.float32(LOWEST), "score"),
    }
    outside = [*states.values(), *boxes.parts]
    inner = build.body()
    count, now, index, score, *parts = body_inputs(inner, [*states, *["box"] * 4], outside)
    all_boxes = Boxes(*parts)
    best, place = best_of_rows(now, 1, rule.first_of_equals)
    is_valid = (best > LOWEST) & (count < most)
    overlap = rule.overlap(all_boxes.map(lambda part: picked(part, place)), all_boxes)
    is_mine = numbers(inner, size).equals(place)
    is_next = numbers(inner, most).equals(count) & is_valid
    number = count + is_valid.cast(DType.INT32)
    goes_on = (is_valid & (number < most)).cast(DType.FLOAT32).largest(0, 1) > 0
    results = [
        number,
        is_mine.chosen(LOWEST, decay.lower(now, overlap, rule.threshold)),
        is_next.chosen(place, index),
        is_next.chosen(best, score),
        goes_on.reshape(),
    ]
    loop = While(inner.graph("round", results))
    *_, places, values = build.add_all(loop, *outside, hint="kept")
    return KeptBoxes(places, values, values > LOWEST)
