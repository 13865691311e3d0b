"""Which boxes greedy suppression keeps, decided for several boxes at a time, exactly.

No value grows with the square of the number of boxes.
"""

from __future__ import annotations

import numpy as np

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, concatenate
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
from prototrt.surgery.detection.overlaps import Boxes, Suppression
from prototrt.surgery.ir import DType, OpenSize, computable, fixed, range_of
from prototrt.surgery.ops import MatMul, Tile, While

GROUP = 16
"""Boxes that a round decides where the number of rounds is fixed: written out, they become one kernel."""
LARGEST_BLOCK, SMALLEST_BLOCK = 256, 32
"""Boxes of a list that a round looks at where the number of rounds depends on the boxes."""
MOST_PAIRS = 1 << 20
"""Pairs of boxes that such a round compares, above the smallest blocks: a CPU needs a few milliseconds for them."""
REPEATS = 8
"""How often such a round computes again what is kept: real boxes need three to six."""


def suppress_in_groups(is_candidate: Value, boxes: Boxes, rule: Suppression) -> Value:
    """Which boxes (lists, n) of sorted lists are kept, in a fixed number of rounds, a ``GROUP`` of boxes in each.

    A round drops what boxes kept in earlier rounds suppress, then decides the boxes of its group one by one.
    """
    build = is_candidate.build
    lists, count = is_candidate.shape[0], fixed(is_candidate.shape[1], "the number of boxes")
    rounds = -(-count // GROUP)
    size = rounds * GROUP
    possible = lengthened(is_candidate.cast(DType.FLOAT32), 1, size, 0)
    boxes = boxes.map(lambda part: lengthened(part, 1, size, 0))

    def in_groups(row: Value) -> Value:
        return row.reshape(lists, rounds, GROUP).transpose(1, 0, 2)

    groups = boxes.map(lambda part: in_groups(part).reshape(rounds, lists, GROUP, 1))
    others = groups.map(lambda part: part.reshape(rounds, lists, 1, GROUP))
    place = numbers(build, GROUP)
    is_later = place.reshape(1, 1, 1, GROUP) > place.reshape(1, 1, GROUP, 1)
    reaches = is_later.chosen(rule.reach(rule.overlap(groups, others)), 0)
    tables = [in_groups(possible).reshape(rounds, lists, 1, GROUP), *groups.parts, reaches]
    states = [
        build.constant(np.zeros(1, np.int32), "round"),
        repeat_number(build, (lists, 1, size), np.float32(0), "kept"),
        repeat_number(build, (lists, 1, 1), np.float32(rule.threshold), "threshold"),
    ][: 3 if rule.shrinks else 2]
    rows = boxes.map(lambda part: part.reshape(lists, 1, size)).parts

    inner = build.body()
    number, kept, *threshold = body_inputs(inner, ["round", "kept", "threshold"], states)
    candidates, *mine, reach = (
        table.gathered(number).reshape(*table.shape[1:])
        for table in body_inputs(inner, ["candidates", *["group"] * 4, "reach"], tables)
    )
    all_boxes = Boxes(*body_inputs(inner, ["box"] * 4, rows))
    from_all = rule.reach(rule.overlap(all_boxes, Boxes(*mine)))
    from_kept = (kept > 0).chosen(from_all, -1) if rule.shrinks else from_all * kept
    reached = from_kept.largest(2).reshape(lists, 1, GROUP)
    now, *threshold = _one_by_one(candidates, reached, reach, threshold, rule)
    round_of = inner.constant(np.arange(size, dtype=np.int32) // GROUP, "round_of")
    is_mine = round_of.equals(number).reshape(1, 1, size)
    spread = now.apply(Tile(2, rounds))
    results = [number + 1, is_mine.chosen(spread, kept), *threshold]
    loop = While(inner.graph("round", results), rounds)
    ends = build.add_all(loop, *states, *tables, *rows, hint="kept")
    return ends[1].reshape(lists, size).slice(1, 0, count) > 0


def _one_by_one(
    candidates: Value, reached: Value, reach: Value, threshold: list[Value], rule: Suppression
) -> list[Value]:
    """Which boxes of a group (lists, 1, n) are kept, as 0 or 1, then the threshold behind them, if it shrinks.

    ``reached`` is how far boxes kept before reach each box, ``reach`` (lists, n, n) how far each box reaches others.
    """
    if not rule.shrinks:
        dropped = (1 - candidates).at_least(reached)
        for place in range(GROUP - 1):
            dropped = dropped.at_least(reach.slice(1, place) - dropped.slice(2, place))
        return [1 - dropped]
    (limit,), decisions = threshold, []
    for place in range(GROUP):
        kept = (candidates.slice(2, place) > 0) & ~rule.is_reached(reached.slice(2, place), limit)
        if place < GROUP - 1:
            reached = reached.at_least(kept.chosen(reach.slice(1, place), -1))
        limit = rule.shrunk(limit, kept)
        decisions.append(kept.cast(DType.FLOAT32))
    return [concatenate(decisions, 2), limit]


def suppress_in_blocks(
    scores: Value, boxes: Boxes, rule: Suppression, *, before: int, most: int
) -> KeptBoxes:
    """The first ``most`` boxes that are kept of the ``before`` best ones, in rounds that end once there are enough.

    A round looks at a block of the best boxes that are not decided yet. Those that it keeps are a fixed point: boxes
    that no kept box before them suppresses. Each repetition makes one more of the first boxes right. As long as
    the last two agree, they are right, as is the first box in which they differ. So a round decides ``REPEATS``
    boxes or more, and mostly all.
    """
    build = scores.build
    lists, count = (computable(dim, "the number of boxes") for dim in scores.shape)
    size = block_size(range_of(lists).max, before, most)
    scores = lengthened(scores, 1, size, LOWEST)
    ahead = np.int32(-1 if rule.first_of_equals else np.iinfo(np.int32).max)
    states = {
        "count": repeat_number(build, (lists, 1), np.int32(0), "count"),
        "decided": repeat_number(build, (lists, 1), np.int32(0), "decided"),
        "last_score": repeat_number(build, (lists, 1), np.float32(np.inf), "last_score"),
        "last_place": repeat_number(build, (lists, 1), ahead, "last_place"),
        "index": repeat_number(build, (lists, most), np.int32(0), "index"),
        "score": repeat_number(build, (lists, most), np.float32(LOWEST), "score"),
    }
    outside = [*states.values(), scores, *boxes.parts]

    inner = build.body()
    number, decided, last_score, last_place, index, score, every_score, *parts = body_inputs(
        inner, [*states, "scores", *["box"] * 4], outside
    )
    open_scores = _is_behind(every_score, last_score, last_place, rule).chosen(every_score, LOWEST)
    best, places = best_of_rows(open_scores, size, rule.first_of_equals)
    if isinstance(count, OpenSize):
        places = places.at_most(count - 1)  # those behind the list are no candidates
    is_candidate = (best > LOWEST) & (numbers(inner, size) + decided < before)
    kept, last = _suppress_block(Boxes(*parts), is_candidate, places, index, number, rule)
    source, is_new = _sources(kept, number, most)
    total = (number + kept.sum(1).cast(DType.INT32)).at_most(most)
    score_there, decided = picked(best, last), decided + last + 1
    goes_on = (total < most) & (score_there > LOWEST) & (decided < before)
    results = [
        total,
        decided,
        score_there,
        picked(places, last),
        is_new.chosen(picked(places, source), index),
        is_new.chosen(picked(best, source), score),
        (goes_on.cast(DType.FLOAT32).largest(0, 1) > 0).reshape(),
    ]
    loop = While(inner.graph("round", results))
    *_, places_kept, scores_kept = build.add_all(loop, *outside, hint="kept")
    return KeptBoxes(places_kept, scores_kept, scores_kept > LOWEST)


def block_size(lists: int, before: int, most: int) -> int:
    """Boxes of each list that a round looks at: fewer for many lists, which all go through as many rounds."""
    size = LARGEST_BLOCK
    while size > SMALLEST_BLOCK and lists * size * (size + most) > MOST_PAIRS:
        size //= 2
    return min(size, before)


def _is_behind(scores: Value, last_score: Value, last_place: Value, rule: Suppression) -> Value:
    """Which boxes come after the last one that is decided."""
    place = numbers(scores.build, computable(scores.shape[1], "the number of boxes"))
    is_behind = place > last_place if rule.first_of_equals else place < last_place
    return (scores < last_score) | (scores.equals(last_score) & is_behind)


def _sources(kept: Value, number: Value, most: int) -> tuple[Value, Value]:
    """For each place (lists, most) of a result, which box of a block goes there, and whether one does.

    ``kept`` (lists, n) is 0 or 1; ``number`` (lists, 1) boxes were kept before.
    """
    build, lists = kept.build, kept.shape[0]
    size = fixed(kept.shape[1], "the number of boxes")
    earlier = _is_earlier(build, size).cast(DType.FLOAT32)
    rank = kept.reshape(lists, 1, size).apply(MatMul(), earlier).cast(DType.INT32)
    place = (kept.reshape(lists, 1, size) > 0).chosen(rank + number.reshape(lists, 1, 1), -1)
    is_there = numbers(build, most).reshape(1, most, 1).equals(place)
    box = numbers(build, size).cast(DType.FLOAT32).reshape(1, 1, size)
    source = is_there.chosen(box, -1).largest(2).reshape(lists, most)
    return source.at_least(0).cast(DType.INT32), source > -1


def _suppress_block(
    boxes: Boxes, is_candidate: Value, places: Value, index: Value, number: Value, rule: Suppression
) -> tuple[Value, Value]:
    """Which boxes of a block (lists, n) are kept, as 0 or 1, and the last one that is decided, a place (lists, 1).

    ``index`` (lists, most) are the places of boxes that were kept before, of which the first ``number`` count.
    """
    build, lists = is_candidate.build, is_candidate.shape[0]
    size, most = (fixed(each.shape[1], "the number of boxes") for each in (is_candidate, index))
    mine = boxes.map(lambda part: picked(part, places))
    rows = mine.map(lambda part: part.reshape(lists, size, 1))
    columns = mine.map(lambda part: part.reshape(lists, 1, size))
    kept = boxes.map(lambda part: picked(part, index).reshape(lists, most, 1))
    is_kept = (numbers(build, most) < number).reshape(lists, most, 1)
    reached = is_kept.chosen(rule.reach(rule.overlap(kept, columns)), -1).largest(1)
    reach = _is_earlier(build, size).chosen(
        rule.reach(rule.overlap(rows, columns)), -1 if rule.shrinks else 0
    )
    candidates = is_candidate.cast(DType.FLOAT32).reshape(lists, 1, size)
    if rule.shrinks:
        now, before = _iterate_with_decay(candidates, reached, reach, number, most, rule)
    else:
        now, before = _iterate(rule.is_reached(reached, 0).chosen(0, candidates), reach)
    place = numbers(build, size).cast(DType.FLOAT32)
    last = now.equals(before).reshape(lists, size).chosen(size - 1, place).smallest(1)
    return (place > last).chosen(0, now.reshape(lists, size)), last.cast(DType.INT32)


def _iterate(possible: Value, reach: Value) -> tuple[Value, Value]:
    """Which boxes (lists, 1, n) are kept, after the last repetition and after the one before."""
    now = before = possible
    for _ in range(REPEATS):
        now, before = (now.apply(MatMul(), reach) > 0).chosen(0, possible), now
    return now, before


def _iterate_with_decay(
    candidates: Value, reached: Value, reach: Value, number: Value, most: int, rule: Suppression
) -> tuple[Value, Value]:
    """The same, where each box has the threshold of as many boxes as are kept before it."""
    build, lists = reach.build, reach.shape[0]
    size = fixed(reach.shape[1], "the number of boxes")
    earlier = _is_earlier(build, size).cast(DType.FLOAT32)
    count = number.reshape(lists, 1, 1)
    thresholds = build.constant(rule.thresholds(most + size), "thresholds")
    now = before = candidates
    for _ in range(REPEATS):
        threshold = thresholds.gathered(now.apply(MatMul(), earlier).cast(DType.INT32) + count)
        furthest = (now.reshape(lists, size, 1) > 0).chosen(reach, -1).largest(1).at_least(reached)
        now, before = rule.is_reached(furthest, threshold).chosen(0, candidates), now
    return now, before


def _is_earlier(build: Builder, size: int) -> Value:
    """Of two boxes of a block (1, n, n), whether the first one is before the second."""
    place = numbers(build, size)
    return place.reshape(1, 1, size) > place.reshape(1, size, 1)
