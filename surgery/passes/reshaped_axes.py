"""Which axes before a Reshape are which axes after it."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.surgery.ir import Shape, element_count

Group = tuple[list[int], list[int]]
"""Axes before and after a Reshape that hold the same elements in the same order."""


def groups(x: Shape, y: Shape) -> list[Group]:
    """The groups of axes of two shapes with as many elements, as small as the sizes tell.

    Axes of size 1 between two groups are a group of their own if both shapes have some there, one for each pair if they
    have equally many. Otherwise they belong to the group before them, or to the first one.
    """
    left, right = ([axis for axis, dim in enumerate(shape) if dim != 1] for shape in (x, y))
    first = _equal_ends(x, y, left, right)
    last = _equal_ends(x, y, left[first:][::-1], right[first:][::-1])
    ends = len(left) - last, len(right) - last
    pairs: list[Group] = [([a], [b]) for a, b in zip(left[:first], right[:first], strict=True)]
    pairs += _between(x, y, left[first : ends[0]], right[first : ends[1]])
    pairs += [([a], [b]) for a, b in zip(left[ends[0] :], right[ends[1] :], strict=True)]
    return _with_ones(x, y, pairs)


def _equal_ends(x: Shape, y: Shape, left: Sequence[int], right: Sequence[int]) -> int:
    """How many of these axes have equal sizes, from the first one on."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if x[a] != y[b]), min(len(left), len(right)))


def _between(x: Shape, y: Shape, left: list[int], right: list[int]) -> list[Group]:
    """Groups of these axes: each ends as soon as both sides have as many elements."""
    if not left and not right:
        return []
    if any(isinstance(dim, str) for dim in (*(x[axis] for axis in left), *(y[axis] for axis in right))):
        return [(left, right)]
    pairs: list[Group] = []
    while left and right:
        a, b = [left.pop(0)], [right.pop(0)]
        while (held := _count(x, a)) != (other := _count(y, b)):
            if held < other:
                a.append(left.pop(0))
            else:
                b.append(right.pop(0))
        pairs.append((a, b))
    return pairs


def _count(shape: Shape, axes: Sequence[int]) -> int:
    return element_count(tuple(shape[axis] for axis in axes))


def _with_ones(x: Shape, y: Shape, pairs: Sequence[Group]) -> list[Group]:
    """The groups with the axes of size 1 between them, or as parts of them."""
    joined: list[Group] = []
    loose: Group = ([], [])  # before the first group
    ends = [*pairs, ([len(x)], [len(y)])]
    at = 0, 0
    for left, right in ends:
        ones = list(range(at[0], left[0])), list(range(at[1], right[0]))
        if len(ones[0]) == len(ones[1]):
            joined += [([a], [b]) for a, b in zip(*ones, strict=True)]
        elif all(ones) or not pairs:
            joined.append(ones)
        elif joined:
            joined[-1] = ([*joined[-1][0], *ones[0]], [*joined[-1][1], *ones[1]])
        else:
            loose = ones
        at = left[-1] + 1, right[-1] + 1
        if left[0] < len(x):
            joined.append(([*loose[0], *range(left[0], at[0])], [*loose[1], *range(right[0], at[1])]))
            loose = ([], [])
    return [(left, right) for left, right in joined if left and right]
