"""Moving elements without changing them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir import Array, Op, Shape, Size, Value, computable, fixed, measure, range_of
from prototrt.surgery.ir.axes import Tie, at_same_places, one_by_one, reshaped_axes
from prototrt.surgery.ir.lengths import LengthsRule


class AlongAxis(Op):
    """Anything that changes one axis of inputs, and treats all places of the others alike."""

    __slots__ = ()
    axis: int

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return at_same_places(inputs, outputs)

    def mixes(self, rank: int) -> Collection[int]:
        return (self.axis,)

    def renumbered(self, places: Sequence[int]) -> Op | None:
        return self._along(places[self.axis])

    def _along(self, axis: int) -> Op:
        this: Any = self  # only its children are dataclasses
        changed: Op = replace(this, axis=axis)
        return changed


@dataclass(frozen=True, slots=True)
class Axis:
    """In a Reshape: the size of this axis of the input, whatever it is."""

    index: int

    def __repr__(self) -> str:
        return f"axis {self.index}"


Target: TypeAlias = tuple[Size | Axis, ...]


@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """The same elements in the same order, in another shape."""

    target: Target

    def shape(self, x: Shape) -> list[Shape]:
        out = tuple(x[dim.index] if isinstance(dim, Axis) else dim for dim in self.target)
        if measure(x) != measure(out):
            raise ShapeError(
                f"{x} cannot become {out}: the numbers of elements differ",
                fix="state sizes with as many elements",
            )
        return [out]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        (x,), (y,) = inputs, outputs
        yield x, y, reshaped_axes(x.shape, y.shape)

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        if list(places) != sorted(places):
            return None
        target = (Axis(places[dim.index]) if isinstance(dim, Axis) else dim for dim in self.target)
        in_front = sorted({*range(max(places, default=0))} - {*places})
        return Reshape((*map(Axis, in_front), *target))

    def evaluate(self, x: Array) -> list[Array]:
        sizes = (x.shape[dim.index] if isinstance(dim, Axis) else fixed(dim, "a size") for dim in self.target)
        return [x.reshape(tuple(sizes))]


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """Axis ``i`` of the output is axis ``order[i]`` of the input."""

    order: tuple[int, ...]

    def shape(self, x: Shape) -> list[Shape]:
        return [tuple(x[axis] for axis in self.order)]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        yield inputs[0], outputs[0], one_by_one(self.order, range(len(self.order)))

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        order = dict(zip(places, (places[axis] for axis in self.order), strict=True))
        return Transpose(tuple(order.get(axis, axis) for axis in range(max(places, default=-1) + 1)))

    def evaluate(self, x: Array) -> list[Array]:
        return [x.transpose(self.order)]


@dataclass(frozen=True, slots=True)
class Slice(AlongAxis):
    """``size`` elements of one axis from ``start`` on."""

    axis: int
    start: Size
    size: Size

    def shape(self, x: Shape) -> list[Shape]:
        # The range may be wider than the sizes that occur: rules refuse what does not fit.
        assert range_of(computable(x[self.axis]) - self.start - self.size).max >= 0
        return [(*x[: self.axis], self.size, *x[self.axis + 1 :])]

    def evaluate(self, x: Array) -> list[Array]:
        index = [slice(None)] * x.ndim
        start = fixed(self.start, "the start")
        index[self.axis] = slice(start, start + fixed(self.size, "a size"))
        return [x[tuple(index)]]


@dataclass(frozen=True, slots=True)
class Concat(AlongAxis):
    """The inputs concatenated along one axis. Their other sizes are equal."""

    axis: int

    def shape(self, *inputs: Shape) -> list[Shape]:
        first = inputs[0]
        for other in inputs[1:]:
            if len(other) != len(first) or self._rest(other) != self._rest(first):
                raise ShapeError(
                    f"shapes {first} and {other} differ outside axis {self.axis}",
                    fix="give them sizes that differ only in this axis",
                )
        sizes = [shape[self.axis] for shape in inputs]
        total = sizes[0]
        for size in sizes[1:]:
            total = computable(total, f"axis {self.axis}") + computable(size, f"axis {self.axis}")
        return [(*first[: self.axis], total, *first[self.axis + 1 :])]

    def _rest(self, shape: Shape) -> Shape:
        return (*shape[: self.axis], *shape[self.axis + 1 :])

    def evaluate(self, *inputs: Array) -> list[Array]:
        return [np.concatenate(inputs, self.axis)]


@dataclass(frozen=True, slots=True)
class Reverse(AlongAxis):
    """The elements of one axis from the last to the first."""

    axis: int

    def shape(self, x: Shape) -> list[Shape]:
        return [x]

    def evaluate(self, x: Array) -> list[Array]:
        return [np.flip(x, self.axis)]


@dataclass(frozen=True, slots=True)
class ReverseSequence(Op):
    """x (T, N, ...) with the first ``lengths[n]`` (N,) elements of each column n of axis 0 turned around.

    The elements after them do not move. Lengths are whole numbers from 0 to T.
    """

    def shape(self, x: Shape, lengths: Shape) -> list[Shape]:
        if len(x) < 2 or lengths != (x[1],):
            raise ShapeError(
                f"shapes are {x} and {lengths}, expected (T, N, ...) and (N,)",
                fix="give a length for each stream",
            )
        return [x]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        x, lengths = inputs
        yield from at_same_places([x], outputs)
        yield lengths, x, one_by_one((0,), (1,))

    def mixes(self, rank: int) -> Collection[int]:
        return (0,)

    def evaluate(self, x: Array, lengths: Array) -> list[Array]:
        LengthsRule().refuse_outside(lengths, len(x))
        y = np.array(x)
        for column, length in enumerate(lengths):
            y[:length, column] = x[:length, column][::-1]
        return [y]


@dataclass(frozen=True, slots=True)
class Tile(AlongAxis):
    """``copies`` of the input, concatenated along one axis."""

    axis: int
    copies: Size

    def shape(self, x: Shape) -> list[Shape]:
        size = computable(x[self.axis], f"axis {self.axis}") * self.copies
        return [(*x[: self.axis], size, *x[self.axis + 1 :])]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return at_same_places(inputs, outputs, without=self.axis)

    def evaluate(self, x: Array) -> list[Array]:
        copies = [1] * x.ndim
        copies[self.axis] = fixed(self.copies, "the number of copies")
        return [np.tile(x, copies)]


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """``before`` and ``after`` elements of ``value`` around each axis; negative counts cut elements off."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float = 0.0

    def shape(self, x: Shape) -> list[Shape]:
        pads = zip(x, self.before, self.after, strict=True)
        return [tuple(dim if not b + a else computable(dim, "a padded axis") + b + a for dim, b, a in pads)]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return at_same_places(inputs, outputs)

    def mixes(self, rank: int) -> Collection[int]:
        return [axis for axis in range(rank) if self.before[axis] or self.after[axis]]

    def renumbered(self, places: Sequence[int]) -> Op | None:
        before, after = (_at_places(counts, places) for counts in (self.before, self.after))
        return Pad(before, after, self.value)

    def evaluate(self, x: Array) -> list[Array]:
        ends = list(zip(self.before, self.after, strict=True))
        kept = tuple(slice(max(-b, 0), size - max(-a, 0)) for size, (b, a) in zip(x.shape, ends, strict=True))
        pads = [(max(b, 0), max(a, 0)) for b, a in ends]
        return [np.pad(x[kept], pads, constant_values=self.value)]


def _at_places(counts: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
    """The counts of axes that have other numbers, 0 for the others."""
    by_place = dict(zip(places, counts, strict=True))
    return tuple(by_place.get(axis, 0) for axis in range(max(places, default=-1) + 1))
