"""Choosing elements by a condition, by an index, or by a mask."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.ir import Array, DataSize, DType, Op, Shape, Size, Value, fixed
from prototrt.surgery.ir.axes import Tie, one_by_one
from prototrt.surgery.ops.elementwise import Elementwise, broadcast


@dataclass(frozen=True, slots=True)
class Select(Elementwise):
    """``a`` where the condition is true, otherwise ``b``. Elements that are not chosen may be anything, even NaN.

    Sizes 1 broadcast, ranks are equal.
    """

    def shape(self, condition: Shape, a: Shape, b: Shape) -> list[Shape]:
        return [broadcast(condition, a, b)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [inputs[1]]

    def evaluate(self, condition: Array, a: Array, b: Array) -> list[Array]:
        return [np.where(condition, a, b)]


@dataclass(frozen=True, slots=True)
class Gather(Op):
    """Rows of ``table`` (K, ...) picked by whole numbers: the shape of ``index``, then of a row."""

    index_name: str = field(default="index", repr=False, compare=False)
    """What the user calls a number, for the message about one that picks no row."""
    rows_name: str = field(default="rows that it picks from", repr=False, compare=False)

    def shape(self, table: Shape, index: Shape) -> list[Shape]:
        return [(*index, *table[1:])]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        (table, index), (y,), picked = inputs, outputs, len(inputs[1].shape)
        yield index, y, one_by_one(range(picked))
        yield table, y, one_by_one(range(1, len(table.shape)), range(picked, len(y.shape)))

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        return self  # those of the index

    def refuse_outside(self, index: Array, rows: int) -> None:
        """Raise ``ShapeError`` for an index outside the rows."""
        _refuse_outside(index, rows, self.index_name, self.rows_name)

    def evaluate(self, table: Array, index: Array) -> list[Array]:
        self.refuse_outside(index, len(table))
        return [table[index]]


@dataclass(frozen=True, slots=True)
class Scatter(Op):
    """x (..., K) with each element at its place on a last axis of ``size`` elements, 0 elsewhere.

    ``index`` (..., K) are whole numbers from 0 to ``size - 1``. If two elements have the same place, the later one
    wins; TensorRT does not specify which. An engine drops elements that have no place on the axis.
    """

    size: Size

    def shape(self, x: Shape, index: Shape) -> list[Shape]:
        assert x == index, f"{x} and {index}"
        return [(*x[:-1], self.size)]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        x, index = inputs
        rows = one_by_one(range(len(x.shape) - 1))
        return [(x, outputs[0], rows), (index, outputs[0], rows)]

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        return self if places[-1] == max(places) else None

    def refuse_outside(self, index: Array, places: int) -> None:
        """Raise ``ShapeError`` for an index outside the places."""
        _refuse_outside(index, places, "index", "places")

    def evaluate(self, x: Array, index: Array) -> list[Array]:
        size = fixed(self.size, "the size")
        self.refuse_outside(index, size)
        y = np.zeros((*x.shape[:-1], size), x.dtype)
        for row, places, elements in zip(*(a.reshape(-1, a.shape[-1]) for a in (y, index, x)), strict=True):
            row[places] = elements
        return [y]


def _refuse_outside(index: Array, count: int, index_name: str, rows_name: str) -> None:
    """Indices in floats lose their fraction."""
    outside = index[~((index > -1) & (index < count))]
    if outside.size:
        raise ShapeError(
            f"{index_name} {_number(outside[0])} is outside the {count} {rows_name}",
            fix=f"give indices from 0 to {count - 1}",
        )


def _number(number: Any) -> str:
    return f"{number:g}" if isinstance(number, np.floating) else str(number)


@dataclass(frozen=True, slots=True)
class Compress(Op):
    """The items of x (N, ...) whose element of ``chosen`` (N,) is not 0: (``count``, ...)."""

    count: DataSize

    data_dependent: ClassVar[bool] = True

    def shape(self, x: Shape, chosen: Shape) -> list[Shape]:
        return [(self.count, *x[1:])]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        (x, chosen), (y,) = inputs, outputs
        yield x, y, one_by_one(range(1, len(x.shape)))
        yield x, chosen, one_by_one((0,))

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def faults(self, inputs: Sequence[Value]) -> Sequence[str]:
        return []  # whether a number is 0 can be seen in any type

    def evaluate(self, x: Array, chosen: Array) -> list[Array]:
        return [x[chosen != 0]]
