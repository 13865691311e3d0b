"""How the axes of the operands of a primitive correspond."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from prototrt.surgery.ir.shapes import Shape, measure

if TYPE_CHECKING:
    from prototrt.surgery.ir.graph import Value

Group: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""Axes of two values that count the same things in the same order: mostly one of each."""
Tie: TypeAlias = "tuple[Value, Value, Sequence[Group]]"
"""Two values, and their axes that count the same."""


@lru_cache(maxsize=1024)
def one_by_one(left: Sequence[int], right: Sequence[int] | None = None) -> Sequence[Group]:
    """Axes with single counterparts; by default those at the same places."""
    return [((a,), (b,)) for a, b in zip(left, left if right is None else right, strict=True)]


def at_same_places(
    inputs: Iterable[Value], outputs: Iterable[Value], without: int | None = None
) -> Iterable[Tie]:
    """Each input tied to each output of its rank, axis by axis; perhaps ``without`` one axis.

    Sizes 1 broadcast, and an axis of which only some elements are left still counts the same.
    """
    for y in outputs:
        axes = tuple(axis for axis in range(len(y.shape)) if axis != without)
        yield from ((x, y, one_by_one(axes)) for x in inputs if len(x.shape) == len(y.shape))


@lru_cache(maxsize=1024)
def reshaped_axes(x: Shape, y: Shape) -> Sequence[Group]:
    """The groups of axes of two shapes with as many elements, as small as the sizes tell.

    A group ends where the axes up to there hold as many elements in both shapes. Axes of size 1 between two groups are
    a group of their own if both shapes have some there, one for each pair if they have equally many. Otherwise they
    belong to the group before them, or to the first one.
    """
    counts_of_y = _counts(y)
    ends = [count for count in dict.fromkeys(_counts(x)) if count in counts_of_y]
    pairs: list[tuple[list[int], list[int]]] = []
    first: tuple[list[int], list[int]] = [], []
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


def _parts(shape: Shape, ends: Iterable[object]) -> list[tuple[list[int], list[int]]]:
    """The axes between two counts of elements: the leading ones of size 1, and the others."""
    parts: dict[object, tuple[list[int], list[int]]] = {count: ([], []) for count in ends}
    part: tuple[list[int], list[int]] = [], []
    for axis, count in enumerate(_counts(shape)[:-1]):
        part = parts.get(count, part)
        ones, others = part
        (ones if shape[axis] == 1 and not others else others).append(axis)
    return [*parts.values()]
