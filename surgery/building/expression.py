"""Formulas written as in their sources. Each operator on values adds a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Dim, DType, OpenSize, Shape, Size, Value
from prototrt.surgery.ops import (
    ADD,
    AND,
    CEIL,
    DIVIDE,
    EQUAL,
    EXP,
    FLOOR,
    GREATER,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NOT,
    OR,
    SUBTRACT,
    Binary,
    Concat,
    Gather,
    Reduce,
    ReduceKind,
    Select,
    Sigmoid,
    Slice,
    Transpose,
)

Number: TypeAlias = float | OpenSize
"""A number, or a size that varies and is computed with as a number."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A value and the builder that adds nodes for its formula. Numbers become constants of its type.

    Sizes 1 broadcast, ranks are equal. ``a > b`` and ``a >= b`` are truth values, which ``&``, ``|`` and
    ``~`` join; ``a >= b`` is true where one of them is NaN.
    """

    build: Builder
    value: Value

    @property
    def shape(self) -> Shape:
        return self.value.shape

    def __add__(self, other: Expression | Number) -> Expression:
        return self._with(ADD, other)

    def __sub__(self, other: Expression | Number) -> Expression:
        return self._with(SUBTRACT, other)

    def __rsub__(self, other: Number) -> Expression:
        return self._like(other)._with(SUBTRACT, self)

    def __mul__(self, other: Expression | Number) -> Expression:
        return self._with(MULTIPLY, other)

    def __truediv__(self, other: Expression | Number) -> Expression:
        return self._with(DIVIDE, other)

    def __gt__(self, other: Expression | Number) -> Expression:
        return self._with(GREATER, other)

    def __lt__(self, other: Expression | Number) -> Expression:
        return self._like(other)._with(GREATER, self)

    def __ge__(self, other: Expression | Number) -> Expression:
        return ~(self < other)

    def __and__(self, other: Expression) -> Expression:
        return self._with(AND, other)

    def __or__(self, other: Expression) -> Expression:
        return self._with(OR, other)

    def __invert__(self) -> Expression:
        return Expression(self.build, self.build.add(NOT, self.value))

    def equals(self, other: Expression | Number) -> Expression:
        """Where both are the same number."""
        return self._with(EQUAL, other)

    def at_least(self, other: Expression | Number) -> Expression:
        """The larger of both."""
        return self._with(MAXIMUM, other)

    def at_most(self, other: Expression | Number) -> Expression:
        """The smaller of both."""
        return self._with(MINIMUM, other)

    def exp(self) -> Expression:
        return Expression(self.build, self.build.add(EXP, self.value))

    def floor(self) -> Expression:
        return Expression(self.build, self.build.add(FLOOR, self.value))

    def ceil(self) -> Expression:
        return Expression(self.build, self.build.add(CEIL, self.value))

    def sigmoid(self) -> Expression:
        return Expression(self.build, self.build.add(Sigmoid(), self.value))

    def sum(self, *axes: int) -> Expression:
        """Sums along these axes, which become 1."""
        return self._reduced(ReduceKind.SUM, axes)

    def largest(self, *axes: int) -> Expression:
        """The largest elements along these axes, which become 1."""
        return self._reduced(ReduceKind.MAX, axes)

    def smallest(self, *axes: int) -> Expression:
        """The smallest elements along these axes, which become 1."""
        return self._reduced(ReduceKind.MIN, axes)

    def cast(self, dtype: DType) -> Expression:
        return Expression(self.build, self.build.cast(self.value, dtype))

    def chosen(self, yes: Expression | Number, no: Expression | Number) -> Expression:
        """``yes`` where this truth value holds, otherwise ``no``. At least one of them is an expression."""
        known = yes if isinstance(yes, Expression) else no
        assert isinstance(known, Expression)
        a, b = (item if isinstance(item, Expression) else known._like(item) for item in (yes, no))
        return Expression(self.build, self.build.add(Select(), self.value, a.value, b.value))

    def reshape(self, *shape: Dim) -> Expression:
        return Expression(self.build, self.build.reshape(self.value, shape))

    def transpose(self, *order: int) -> Expression:
        return Expression(self.build, self.build.add(Transpose(order), self.value))

    def gathered(self, index: Expression) -> Expression:
        """Rows of this table (K, ...) picked by whole numbers: the shape of ``index``, then of a row."""
        return Expression(self.build, self.build.add(Gather(), self.value, index.value))

    def slice(self, axis: int, start: Size, size: Size = 1) -> Expression:
        """``size`` elements of an axis, from ``start`` on."""
        if self.shape[axis] == size:
            return self
        return Expression(self.build, self.build.add(Slice(axis, start, size), self.value))

    def split(self, axis: int) -> list[Expression]:
        """The elements of an axis one by one; the axis stays, with a size of 1."""
        size = self.shape[axis]
        assert isinstance(size, int)
        return [self.slice(axis, start) for start in range(size)]

    def _with(self, op: Binary, other: Expression | Number) -> Expression:
        right = other if isinstance(other, Expression) else self._like(other)
        return Expression(self.build, self.build.add(op, self.value, right.value))

    def _like(self, number: Expression | Number) -> Expression:
        """A number as an expression of the rank and the type of this one."""
        if isinstance(number, Expression):
            return number
        return Expression(self.build, self.build.scalar(number, len(self.shape), self.value.dtype))

    def _reduced(self, kind: ReduceKind, axes: tuple[int, ...]) -> Expression:
        return Expression(self.build, self.build.add(Reduce(kind, axes), self.value))


def as_number(build: Builder, size: Size, rank: int) -> Expression | int:
    """A size to compute fractions with: a number, or an expression of this rank, in float32, if it varies."""
    return size if isinstance(size, int) else Expression(build, build.scalar(size, rank))


def concatenated(parts: Sequence[Expression], axis: int) -> Expression:
    """Expressions concatenated along an axis."""
    if len(parts) == 1:
        return parts[0]
    build = parts[0].build
    return Expression(build, build.add(Concat(axis), *(part.value for part in parts)))
