"""Element-wise functions of one blob."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import channel_axis, flattened, misfit, operator_rule
from prototrt.surgery.ir import Op
from prototrt.surgery.ops import (
    ABS,
    CEIL,
    COS,
    ELU,
    ERF,
    EXP,
    FLOOR,
    LOG,
    NEGATIVE,
    SIGN,
    SIN,
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
    "Ceil": CEIL,
    "Cos": COS,
    "Erf": ERF,
    "Exp": EXP,
    "Floor": FLOOR,
    "Log": LOG,
    "Negative": NEGATIVE,
    "Relu": LeakyReLU(),
    "Sigmoid": Sigmoid(),
    "Sign": SIGN,
    "Sin": SIN,
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
    low, high = (
        operator.arguments.number(name, end) for name, end in (("min", -_LARGEST), ("max", _LARGEST))
    )
    return [build.add(Clip(min(low, high), high), x)]


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
    """``x`` where it is positive, else ``slope * x``; one slope for each channel, or one for all.

    Becomes: PReLU.
    Channels are axis 1, or the last one with ``order`` NHWC.
    Source: caffe2 ``operators/prelu_op.cc``.
    """
    rank = len(x.shape)
    axis = channel_axis(operator, x)
    count = flattened(slope.shape)
    if count == 1:
        return [build.add(PReLU(), x, build.reshape(slope, (1,) * rank))]
    if count != x.shape[axis]:
        raise misfit(operator, 1, slope, f"({x.shape[axis]},) or (1,)")
    return [build.add(PReLU(), x, build.aligned(build.reshape(slope, (count,)), rank, axis))]


@operator_rule("Scale")
def scale(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``scale * x``.

    Becomes: Multiply.
    """
    return [x * operator.arguments.number("scale", 1.0)]


@operator_rule("Sqr")
def square(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x * x``.

    Becomes: Multiply.
    """
    return [x * x]


@operator_rule("Swish")
def swish(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x * sigmoid(x)``.

    Becomes: Sigmoid, Multiply.
    """
    return [x * x.sigmoid()]
