"""Functions of one element."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.surgery.builder import Builder
from prototrt.surgery.caffe2.operator_rule import operator_rule
from prototrt.surgery.ir import Op, Value
from prototrt.surgery.ops import (
    ABS,
    ELU,
    EXP,
    LOG,
    MULTIPLY,
    NEGATIVE,
    SQRT,
    Clip,
    LeakyReLU,
    PReLU,
    Sigmoid,
    Softsign,
    TanH,
)

_PLAIN: dict[str, Op] = {
    "Abs": ABS,
    "Exp": EXP,
    "Log": LOG,
    "Negative": NEGATIVE,
    "Relu": LeakyReLU(),
    "Sigmoid": Sigmoid(),
    "Softsign": Softsign(),
    "Sqrt": SQRT,
    "Tanh": TanH(),
}
_LARGEST = 3.4028234663852886e38


@operator_rule(*_PLAIN)
def plain(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The function of this name, element by element.

    Becomes: LeakyReLU for Relu; Sigmoid, TanH, Softsign; Unary.
    """
    return [build.add(_PLAIN[operator.type], x)]


@operator_rule("Clip")
def clip(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``min(max(x, min), max)``; either end may be missing.

    Becomes: Clip.
    """
    arguments = operator.arguments
    return [build.add(Clip(arguments.number("min", -_LARGEST), arguments.number("max", _LARGEST)), x)]


@operator_rule("Elu")
def elu(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    Becomes: ELU.
    """
    return [build.add(ELU(operator.arguments.number("alpha", 1.0)), x)]


@operator_rule("LeakyRelu")
def leaky_relu(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` where it is positive, else ``alpha * x``.

    Becomes: LeakyReLU.
    """
    return [build.add(LeakyReLU(operator.arguments.number("alpha", 0.01)), x)]


@operator_rule("PRelu")
def prelu(build: Builder, operator: Operator, x: Value, slope: Value) -> list[Value]:
    """``x`` where it is positive, else ``slope * x``; one slope for each element of axis 1, or one in all.

    Becomes: PReLU.
    """
    axis = 1 if len(x.shape) > 1 and slope.shape != (1,) else 0
    return [build.add(PReLU(), x, build.aligned(slope, len(x.shape), axis))]


@operator_rule("Scale")
def scale(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``scale * x``.

    Becomes: Multiply.
    """
    factor = build.scalar(operator.arguments.number("scale", 1.0), len(x.shape), x.dtype)
    return [build.add(MULTIPLY, x, factor)]


@operator_rule("Sqr")
def square(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x * x``.

    Becomes: Multiply.
    """
    return [build.add(MULTIPLY, x, x)]


@operator_rule("Swish")
def swish(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x * sigmoid(x)``.

    Becomes: Sigmoid, Multiply.
    """
    return [build.add(MULTIPLY, x, build.add(Sigmoid(), x))]
