"""Formulas written as in their sources. Each operator on values adds a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias
from weakref import ReferenceType

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery import ir, ops
from prototrt.surgery.ir import Dim, DType, Op, OpenSize, Size

if TYPE_CHECKING:
    from prototrt.surgery.building.builder import Builder

Number: TypeAlias = float | OpenSize
"""A number, or a size that varies and is computed with as a number."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Expression(ir.Value):
    """A value that a builder made, with operators that add nodes. Numbers become constants of its type.

    Sizes 1 broadcast, ranks are equal. ``a > b`` and ``a >= b`` are truth values, which ``&``, ``|`` and
    ``~`` join; ``a >= b`` is true where one of them is NaN. ``(a * b).named("share")`` names the node of the product.
    """

    builder: ReferenceType[Builder] = field(repr=False)
    """Weak: a graph keeps its values, not what made them."""

    @property
    def build(self) -> Builder:
        build = self.builder()
        assert build is not None, f"the builder of {self} is gone"
        return build

    @property
    def value(self) -> Expression:
        """Itself, for the rules of users that unwrap expressions."""
        return self

    def named(self, hint: str) -> Expression:
        """Name the node of the last step after this hint; nothing happens if that step needed no node."""
        return self.build.rename_last(self, hint) if self.build.latest is self else self

    def apply(self, op: Op, *others: ir.Value) -> Expression:
        """A primitive of this value and others. ``Identity`` adds no node."""
        return self._step(self) if isinstance(op, ops.Identity) else _add(op, self, *others)

    def __add__(self, other: Operand) -> Expression:
        return self.apply(ops.ADD, self._like(other))

    def __radd__(self, other: Operand) -> Expression:
        return _add(ops.ADD, self._like(other), self)

    def __sub__(self, other: Operand) -> Expression:
        return self.apply(ops.SUBTRACT, self._like(other))

    def __rsub__(self, other: Operand) -> Expression:
        return _add(ops.SUBTRACT, self._like(other), self)

    def __mul__(self, other: Operand) -> Expression:
        return self.apply(ops.MULTIPLY, self._like(other))

    def __rmul__(self, other: Operand) -> Expression:
        return _add(ops.MULTIPLY, self._like(other), self)

    def __rtruediv__(self, other: Operand) -> Expression:
        return _add(ops.DIVIDE, self._like(other), self)

    def __truediv__(self, other: Operand) -> Expression:
        return self.apply(ops.DIVIDE, self._like(other))

    def __pow__(self, exponent: float) -> Expression:
        return self.apply(ops.Power(exponent))

    def __neg__(self) -> Expression:
        return self.apply(ops.NEGATIVE)

    def __abs__(self) -> Expression:
        return self.apply(ops.ABS)

    def __gt__(self, other: Operand) -> Expression:
        return self.apply(ops.GREATER, self._like(other))

    def __lt__(self, other: Operand) -> Expression:
        return _add(ops.GREATER, self._like(other), self)

    def __ge__(self, other: Operand) -> Expression:
        return ~(self < other)

    def __and__(self, other: ir.Value) -> Expression:
        return self.apply(ops.AND, other)

    def __or__(self, other: ir.Value) -> Expression:
        return self.apply(ops.OR, other)

    def __invert__(self) -> Expression:
        return self.apply(ops.NOT)

    def equals(self, other: Operand) -> Expression:
        """Where both are the same number."""
        return self.apply(ops.EQUAL, self._like(other))

    def at_least(self, other: Operand) -> Expression:
        """The larger of both."""
        return self.apply(ops.MAXIMUM, self._like(other))

    def at_most(self, other: Operand) -> Expression:
        """The smaller of both."""
        return self.apply(ops.MINIMUM, self._like(other))

    def scaled(self, factor: float) -> Expression:
        """Multiplied by a factor; no node for 1."""
        return self._step(self) if factor == 1 else self * factor

    def shifted(self, summand: float) -> Expression:
        """With a summand; no node for 0."""
        return self._step(self) if summand == 0 else self + summand

    def exp(self) -> Expression:
        return self.apply(ops.EXP)

    def log(self) -> Expression:
        return self.apply(ops.LOG)

    def sqrt(self) -> Expression:
        return self.apply(ops.SQRT)

    def floor(self) -> Expression:
        return self.apply(ops.FLOOR)

    def ceil(self) -> Expression:
        return self.apply(ops.CEIL)

    def sigmoid(self) -> Expression:
        return self.apply(ops.Sigmoid())

    def tanh(self) -> Expression:
        return self.apply(ops.TanH())

    def sum(self, *axes: int) -> Expression:
        """Sums along these axes, which become 1."""
        return self.apply(ops.Reduce(ops.ReduceKind.SUM, axes))

    def mean(self, *axes: int) -> Expression:
        """Means along these axes, which become 1."""
        return self.apply(ops.Reduce(ops.ReduceKind.MEAN, axes))

    def largest(self, *axes: int) -> Expression:
        """The largest elements along these axes, which become 1."""
        return self.apply(ops.Reduce(ops.ReduceKind.MAX, axes))

    def smallest(self, *axes: int) -> Expression:
        """The smallest elements along these axes, which become 1."""
        return self.apply(ops.Reduce(ops.ReduceKind.MIN, axes))

    def product(self, weights: ir.Value) -> Expression:
        """``x W^T`` over the last axis, for weights W (outputs, inputs) as Caffe stores them."""
        return self.build.product(self, weights)

    def cast(self, dtype: DType) -> Expression:
        return self._step(self.build.cast(self, dtype))

    def chosen(self, yes: Operand, no: Operand) -> Expression:
        """``yes`` where this truth value holds, otherwise ``no``. At least one of them is an expression."""
        typed = yes if isinstance(yes, Expression) else no
        assert isinstance(typed, Expression)
        return self.apply(ops.Select(), typed._like(yes), typed._like(no))

    def reshape(self, *shape: Dim) -> Expression:
        return self._step(self.build.reshape(self, shape))

    def transpose(self, *order: int) -> Expression:
        return self.apply(ops.Transpose(order))

    def gathered(self, index: ir.Value) -> Expression:
        """Rows of this table (K, ...) picked by whole numbers: the shape of ``index``, then of a row."""
        return self.apply(ops.Gather(), index)

    def slice(self, axis: int, start: Size, size: Size = 1) -> Expression:
        """``size`` elements of an axis, from ``start`` on."""
        is_whole = self.shape[axis] == size
        return self._step(self) if is_whole else self.apply(ops.Slice(axis, start, size))

    def split(self, axis: int) -> list[Expression]:
        """The elements of an axis one by one; the axis stays, with a size of 1."""
        size = self.shape[axis]
        assert isinstance(size, int)
        return [self.slice(axis, start) for start in range(size)]

    def _like(self, operand: Operand) -> ir.Value:
        """A number as a value of the rank and the type of this one."""
        if isinstance(operand, ir.Value):
            return operand
        return self.build.scalar(operand, len(self.shape), self.dtype)

    def _step(self, result: Expression) -> Expression:
        """The result of a step that adds a node only where one is needed."""
        if result is self:
            self.build.latest = None
        return result


Operand: TypeAlias = ir.Value | Number
Value = Expression
"""What rules take and return."""


def _add(op: Op, *operands: ir.Value) -> Expression:
    """A node in the innermost body that has one of the operands; weights of a finished graph belong to none."""
    makers = [each.builder() for each in operands if isinstance(each, Expression)]
    builders = [build for build in makers if build is not None]
    assert builders, f"the builder of {operands[0]} is gone"
    return max(builders, key=lambda build: build.depth).add(op, *operands)


def as_number(build: Builder, size: Size, rank: int) -> Expression | int:
    """A size to compute fractions with: a number, or an expression of this rank, in float32, if it varies."""
    return size if isinstance(size, int) else build.scalar(size, rank)


def concatenate(parts: Sequence[Expression], axis: int) -> Expression:
    """Expressions concatenated along an axis."""
    if len(parts) == 1:
        return parts[0]
    return parts[0].apply(ops.Concat(axis), *parts[1:])


def centre(x: Expression, axes: tuple[int, ...]) -> tuple[Expression, Expression, Expression]:
    """``x`` without its mean over these axes, its variance over them, and the mean."""
    mean = x.mean(*axes).named("mean")
    difference = (x - mean).named("centred")
    return difference, (difference * difference).mean(*axes).named("variance"), mean
