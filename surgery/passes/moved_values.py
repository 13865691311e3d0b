"""Values with the elements of another value: its axes in another order, or more or fewer axes of size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir import Array, AtMost, DataSize, Dim, Op, Shape, Size, Value
from prototrt.surgery.ops import Axis, Reshape, Transpose

Axes: TypeAlias = tuple[int | None, ...]
"""For each axis of a value, the axis of its source that it is; None for a size of 1."""


@dataclass(frozen=True, slots=True)
class Move:
    """How a value comes from ``source``, whose sizes of 1 it may leave out."""

    source: Value
    axes: Axes

    @classmethod
    def of(cls, source: Value, axes: Sequence[int | None] | None = None) -> Move:
        """The move to these axes of a value; by default to the value itself."""
        order = range(len(source.shape)) if axes is None else axes
        return cls(source, tuple(None if axis is None or source.shape[axis] == 1 else axis for axis in order))

    @property
    def keeps_order(self) -> bool:
        """Whether no element changes its place in memory."""
        moved = [axis for axis in self.axes if axis is not None]
        return moved == sorted(moved)

    @property
    def shape(self) -> Shape:
        return tuple(1 if axis is None else self.source.shape[axis] for axis in self.axes)

    def then(self, op: Op) -> Move | None:
        """The move followed by a Transpose, or by a Reshape that only adds and removes axes of size 1; else None."""
        if isinstance(op, Transpose):
            return replace(self, axes=tuple(self.axes[axis] for axis in op.order))
        if not isinstance(op, Reshape):
            return None
        (target,) = op.shape(self.shape)
        kept = [axis for axis in self.axes if axis is not None]
        if [dim for dim in target if dim != 1] != [self.source.shape[axis] for axis in kept]:
            return None
        rest = iter(kept)
        return replace(self, axes=tuple(None if dim == 1 else next(rest) for dim in target))

    def ops(self) -> list[Op]:
        """What makes the value of its source."""
        source = self.source.shape
        order = [axis for axis in self.axes if axis is not None]
        if self.keeps_order:
            return reshapes(source, self.shape)
        whole = [*order, *(axis for axis in range(len(source)) if axis not in order)]
        return [Transpose(tuple(whole)), *reshapes(tuple(source[axis] for axis in whole), self.shape)]


def together(moves: Sequence[Move]) -> Axes | None:
    """The axes of what elements at equal places of several values make; None unless the sources meet as they do."""
    if len({(len(move.source.shape), len(move.axes)) for move in moves}) != 1:
        return None
    axes: list[int | None] = []
    for each in zip(*(move.axes for move in moves), strict=True):
        places = {axis for axis in each if axis is not None}
        if len(places) > 1 or not places.isdisjoint(axes):
            return None
        axes.append(places.pop() if places else None)
    return tuple(axes)


def before_moves(array: Array, axes: Axes, rank: int) -> Array | None:
    """An array that meets a value with these axes, as it meets the source of this rank; None if it makes axes grow."""
    if any(axis is None and array.shape[place] != 1 for place, axis in enumerate(axes)):
        return None
    places = {axis: place for place, axis in enumerate(axes) if axis is not None}
    order = [places[axis] for axis in sorted(places)]
    moved = array.transpose(*order, *(place for place in range(array.ndim) if place not in order))
    return moved.reshape([array.shape[places[axis]] if axis in places else 1 for axis in range(rank)])


def reshapes(start: Shape, end: Shape) -> list[Op]:
    """A Reshape between shapes whose open sizes have the same order; none if they are equal."""
    return [] if start == end else [reshape_to(end, start)]


def reshape_to(end: Shape, start: Shape) -> Reshape:
    """The Reshape between shapes whose open sizes have the same order. Those that ``start`` lacks are computed."""
    target: list[Size | Axis] = []
    rest = list(enumerate(start))
    for dim in end:
        at = next((at for at, (_, other) in enumerate(rest) if other == dim and _is_open(other)), None)
        if at is not None and _is_open(dim):
            target.append(Axis(rest[at][0]))
            rest = rest[at + 1 :]
        else:
            assert not isinstance(dim, DataSize), "what depends on the data is copied"
            target.append(dim)
    return Reshape(tuple(target))


def _is_open(dim: Dim) -> bool:
    """Whether a size must be copied from the input: a symbol, or one with a count."""
    return isinstance(dim, str | AtMost)
