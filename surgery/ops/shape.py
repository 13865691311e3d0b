"""Moving elements without changing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.ir import Array, DataSize, Op, Shape, Size, computable, fixed, open_count, range_of
from prototrt.surgery.ir.lengths import LengthsRule


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

    def evaluate(self, x: Array) -> list[Array]:
        sizes = (x.shape[dim.index] if isinstance(dim, Axis) else fixed(dim, "a size") for dim in self.target)
        return [x.reshape(tuple(sizes))]


def measure(shape: Shape) -> tuple[Size, list[DataSize]]:
    """Number of elements: the product of the sizes, and the sizes that depend on the data."""
    counted = sorted(dim for dim in shape if isinstance(dim, DataSize))
    return open_count(tuple(dim for dim in shape if not isinstance(dim, DataSize))), counted


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """Axis ``i`` of the output is axis ``order[i]`` of the input."""

    order: tuple[int, ...]

    def shape(self, x: Shape) -> list[Shape]:
        return [tuple(x[axis] for axis in self.order)]

    def evaluate(self, x: Array) -> list[Array]:
        return [x.transpose(self.order)]


@dataclass(frozen=True, slots=True)
class Slice(Op):
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
class Concat(Op):
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
class Reverse(Op):
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

    def evaluate(self, x: Array, lengths: Array) -> list[Array]:
        LengthsRule().refuse_outside(lengths, len(x))
        y = np.array(x)
        for column, length in enumerate(lengths):
            y[:length, column] = x[:length, column][::-1]
        return [y]


@dataclass(frozen=True, slots=True)
class Tile(Op):
    """``copies`` of the input, concatenated along one axis."""

    axis: int
    copies: Size

    def shape(self, x: Shape) -> list[Shape]:
        size = computable(x[self.axis], f"axis {self.axis}") * self.copies
        return [(*x[: self.axis], size, *x[self.axis + 1 :])]

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

    def evaluate(self, x: Array) -> list[Array]:
        ends = list(zip(self.before, self.after, strict=True))
        kept = tuple(slice(max(-b, 0), size - max(-a, 0)) for size, (b, a) in zip(x.shape, ends, strict=True))
        pads = [(max(b, 0), max(a, 0)) for b, a in ends]
        return [np.pad(x[kept], pads, constant_values=self.value)]
