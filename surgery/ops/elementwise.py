"""Arithmetic on elements at the same place; sizes 1 broadcast, ranks are equal."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, Dim, DType, Op, Shape, Value
from prototrt.surgery.ir.axes import Tie, at_same_places


class Elementwise(Op):
    """Anything that works on the elements at the same place of its inputs, which have one rank."""

    __slots__ = ()

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return at_same_places(inputs, outputs)

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        return self


class Pointwise(Elementwise):
    """Anything that works element by element on one input."""

    __slots__ = ()

    def shape(self, x: Shape) -> list[Shape]:
        return [x]


class BinaryKind(enum.Enum):
    """Which function of two elements; the values are NumPy's names."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    GREATER = "greater"
    EQUAL = "equal"
    AND = "logical_and"
    OR = "logical_or"


COMPARISONS = (BinaryKind.GREATER, BinaryKind.EQUAL)


def larger(a: Array, b: Array) -> Array:
    """``a > b ? a : b`` as in C: if one of them is NaN, the result is b. NumPy's maximum differs."""
    return np.where(a > b, a, b)


def smaller(a: Array, b: Array) -> Array:
    """``a < b ? a : b`` as in C: if one of them is NaN, the result is b."""
    return np.where(a < b, a, b)


_CHOICES = {BinaryKind.MAXIMUM: larger, BinaryKind.MINIMUM: smaller}


@dataclass(frozen=True, slots=True)
class Binary(Elementwise):
    """``kind(a, b)`` with NumPy's broadcasting between shapes of one rank; comparisons give booleans.

    If one of the two is NaN, Maximum and Minimum return the second. TensorRT does not specify this
    case. Integer division rounds towards zero, as in C.
    """

    kind: BinaryKind

    def shape(self, a: Shape, b: Shape) -> list[Shape]:
        return [broadcast(a, b)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [DType.BOOL if self.kind in COMPARISONS else inputs[0]]

    def faults(self, inputs: Sequence[Value]) -> Sequence[str]:
        a, b = inputs
        return [] if a.dtype is b.dtype else [f"it reads {a.dtype.value} and {b.dtype.value}"]

    def evaluate(self, a: Array, b: Array) -> list[Array]:
        if self.kind is BinaryKind.DIVIDE and a.dtype.kind == "i":
            return [np.trunc(a / b).astype(a.dtype)]
        function: Callable[[Any, Any], Array] = _CHOICES.get(self.kind) or getattr(np, self.kind.value)
        return [function(a, b)]


ADD = Binary(BinaryKind.ADD)
SUBTRACT = Binary(BinaryKind.SUBTRACT)
MULTIPLY = Binary(BinaryKind.MULTIPLY)
DIVIDE = Binary(BinaryKind.DIVIDE)
MAXIMUM = Binary(BinaryKind.MAXIMUM)
MINIMUM = Binary(BinaryKind.MINIMUM)
GREATER = Binary(BinaryKind.GREATER)
EQUAL = Binary(BinaryKind.EQUAL)
AND = Binary(BinaryKind.AND)
OR = Binary(BinaryKind.OR)


class UnaryKind(enum.Enum):
    """Functions of one element. The values are NumPy's names, except for the Gauss error function."""

    ABS = "absolute"
    CEIL = "ceil"
    COS = "cos"
    ERF = "erf"
    EXP = "exp"
    FLOOR = "floor"
    LOG = "log"
    NEGATIVE = "negative"
    NOT = "logical_not"
    SIGN = "sign"
    SIN = "sin"
    SQRT = "sqrt"


@dataclass(frozen=True, slots=True)
class Unary(Pointwise):
    """``kind(x)``, element by element. Outside its domain it is NaN, or infinite at a pole."""

    kind: UnaryKind

    def evaluate(self, x: Array) -> list[Array]:
        function: Callable[[Any], Array] = getattr(np, self.kind.value, _ERF)
        return [np.asarray(function(x), x.dtype)]


_ERF = np.vectorize(math.erf, otypes=[np.float64])

ABS = Unary(UnaryKind.ABS)
CEIL = Unary(UnaryKind.CEIL)
COS = Unary(UnaryKind.COS)
ERF = Unary(UnaryKind.ERF)
EXP = Unary(UnaryKind.EXP)
FLOOR = Unary(UnaryKind.FLOOR)
LOG = Unary(UnaryKind.LOG)
NEGATIVE = Unary(UnaryKind.NEGATIVE)
NOT = Unary(UnaryKind.NOT)
SIGN = Unary(UnaryKind.SIGN)
SIN = Unary(UnaryKind.SIN)
SQRT = Unary(UnaryKind.SQRT)


@dataclass(frozen=True, slots=True)
class Power(Pointwise):
    """``x ** exponent`` as C's ``pow``: for a negative x and an exponent that is not whole, the result is NaN."""

    exponent: float

    def evaluate(self, x: Array) -> list[Array]:
        return [np.power(x, x.dtype.type(self.exponent))]


@dataclass(frozen=True, slots=True)
class Identity(Pointwise):
    """A copy under another name."""

    def evaluate(self, x: Array) -> list[Array]:
        return [x]


@dataclass(frozen=True, slots=True)
class Cast(Elementwise):
    """The same numbers in another element type: whole numbers cut floats towards zero, float16 rounds them."""

    to: DType

    def shape(self, x: Shape) -> list[Shape]:
        return [x]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [self.to]

    def evaluate(self, x: Array) -> list[Array]:
        return [x.astype(self.to.numpy)]


def broadcast(*shapes: Shape) -> Shape:
    """The shape that these shapes of one rank broadcast to, or ``ShapeError``."""
    if len({len(shape) for shape in shapes}) != 1:
        raise ShapeError(
            f"shapes {' and '.join(map(str, shapes))} have different numbers of axes",
            fix="give them equal numbers of axes, with a Reshape before the layer",
        )
    return tuple(_broadcast_dim(dims, shapes) for dims in zip(*shapes, strict=True))


def _broadcast_dim(dims: tuple[Dim, ...], shapes: tuple[Shape, ...]) -> Dim:
    sizes = [dim for dim in dict.fromkeys(dims) if dim != 1]
    if len(sizes) > 1:
        raise ShapeError(
            f"shapes {' and '.join(map(str, shapes))} do not fit together",
            fix="make the sizes equal; a size of 1 is repeated",
        )
    return sizes[0] if sizes else 1
