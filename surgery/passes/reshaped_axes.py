"""Which axes before a Reshape are which axes after it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from prototrt.surgery.ir import Shape
from prototrt.surgery.ops.shape import measure

Group = tuple[list[int], list[int]]
"""Axes before and after a Reshape that hold the same elements in the same order."""


@lru_cache(maxsize=1024)
def groups(x: Shape, y: Shape) -> list[Group]:
    """The groups of axes of two shapes with as many elements, as small as the sizes tell.

    A group ends where the axes up to there hold as many elements in both shapes. Axes of size 1 between two groups are
    a group of their own if both shapes have some there, one for each pair if they have equally many. Otherwise they
    belong to the group before them, or to the first one.
    """
    counts_of_y = _counts(y)
    ends = [count for count in dict.fromkeys(_counts(x)) if count in counts_of_y]
    pairs: list[Group] = []
    first: Group = [], []
    for (left_ones, left), (right_ones, right) in zip(_parts(x, ends), _parts(y, ends), strict=True):
        if len(left_ones) == len(right_ones):
            pairs += [([a], [b]) for a, b in zip(left_ones, right_ones, strict=True)]
        elif left_ones and right_ones:
            pairs.append((left_ones, right_ones))
        else:
            before = pairs[-1] if pairs else first
            before[0].extend(left_ones)
            before[1].extend(right_ones)
        if left:
            pairs.append(([*first[0], *left], [*first[1], *right]))
            first = [], []
    return pairs


def _counts(shape: Shape) -> list[tuple[object, ...]]:
    """How many elements the axes before each axis hold, and all axes."""
    measures = (measure(shape[:axis]) for axis in range(len(shape) + 1))
    return [(count, *of_data) for count, of_data in measures]


def _parts(shape: Shape, ends: Iterable[object]) -> list[Group]:
    """The axes between two counts of elements: the leading ones of size 1, and the others."""
    parts: dict[object, Group] = {count: ([], []) for count in ends}
    part: Group = [], []
    for axis, count in enumerate(_counts(shape)[:-1]):
        part = parts.get(count, part)
        ones, others = part
        (ones if shape[axis] == 1 and not others else others).append(axis)
    return [*parts.values()]
