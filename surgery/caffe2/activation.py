"""Element-wise functions of one blob."""

from __future__ import annotations

import math
from collections.abc import Callable

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import axis_of, channel_axis, merge_sizes, misfit, operator_rule
from prototrt.surgery.ir import Op, fixed

_PLAIN: dict[str, Op] = {
    "Abs": ops.ABS,
    "Ceil": ops.CEIL,
    "Cos": ops.COS,
    "Erf": ops.ERF,
    "Exp": ops.EXP,
    "Floor": ops.FLOOR,
    "Log": ops.LOG,
    "Negative": ops.NEGATIVE,
    "Relu": ops.LeakyReLU(),
    "Sigmoid": ops.Sigmoid(),
    "Sign": ops.SIGN,
    "Sin": ops.SIN,
    "Softsign": ops.Softsign(),
    "Sqrt": ops.SQRT,
    "Tanh": ops.TanH(),
}
_LARGEST = 3.4028234663852886e38


@operator_rule(*_PLAIN)
def plain(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The function of this name, element by element.

    Becomes: LeakyReLU for Relu; Sigmoid, TanH, Softsign; Unary.
    """
    return [build.add(_PLAIN[operator.type], x)]


def _clip(x: Value, arguments: Arguments) -> Value:
    """``min(max(x, min), max)``; either end may be missing."""
    low, high = (arguments.number(name, end) for name, end in (("min", -_LARGEST), ("max", _LARGEST)))
    return x.apply(ops.Clip(min(low, high), high))


def _softplus(x: Value, arguments: Arguments) -> Value:
    """``log(1 + exp(x))``, as ``max(x, 0) + log(1 + exp(-|x|))``, which does not overflow."""
    small = (-abs(x)).exp()
    return (x.apply(ops.LeakyReLU()) + (small + 1.0).log()).named("softplus")


def _gelu(x: Value, arguments: Arguments) -> Value:
    """``x / 2 * (1 + erf(x / sqrt(2)))``, with ``fast_gelu`` in its approximation by tanh."""
    if arguments.flag("fast_gelu"):
        curve = ((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)).tanh()
    else:
        curve = (x * math.sqrt(0.5)).apply(ops.ERF)
    return x * 0.5 * (curve + 1.0)


def _logit(x: Value, arguments: Arguments) -> Value:
    """``log(x / (1 - x))`` of x between ``eps`` and ``1 - eps``."""
    epsilon = arguments.number("eps", 1e-6)
    share = x.apply(ops.Clip(epsilon, 1 - epsilon))
    return (share / (1.0 - share)).log()


def _selu(x: Value, arguments: Arguments) -> Value:
    bent = x.apply(ops.ELU(arguments.number("alpha", 1.6732632423543772)))
    return bent.scaled(arguments.number("scale", 1.0507009873554805))


_FORMULAS: dict[str, Callable[[Value, Arguments], Value]] = {
    "Clip": _clip,
    "Cube": lambda x, _: x * x * x,
    "Elu": lambda x, arguments: x.apply(ops.ELU(arguments.number("alpha", 1.0))),
    "Gelu": _gelu,
    "HardSigmoid": lambda x, arguments: x.apply(
        ops.HardSigmoid(arguments.number("alpha", 0.2), arguments.number("beta", 0.5))
    ),
    "LeakyRelu": lambda x, arguments: x.apply(ops.LeakyReLU(arguments.number("alpha", 0.01))),
    "Logit": _logit,
    "Mish": lambda x, arguments: x * _softplus(x, arguments).tanh(),
    "Reciprocal": lambda x, _: 1 / x,
    "ReluN": lambda x, arguments: x.apply(ops.Clip(0.0, arguments.number("n", 6.0))),
    "Rsqrt": lambda x, _: 1 / x.sqrt(),
    "Scale": lambda x, arguments: x * arguments.number("scale", 1.0),
    "Selu": _selu,
    "Softplus": _softplus,
    "Sqr": lambda x, _: x * x,
    "Swish": lambda x, _: x * x.sigmoid(),
    "ThresholdedRelu": lambda x, arguments: (x > arguments.number("alpha", 1.0)).chosen(x, 0.0),
}


@operator_rule(*_FORMULAS)
def formula(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """What the formula of the operator says, element by element.

    Becomes: Abs, Add, Clip, Divide, ELU, Erf, Exp, Greater, HardSigmoid, LeakyReLU, Log, Multiply, Negative, Select,
    Sigmoid, Sqrt, Subtract, TanH.
    """
    return [_FORMULAS[operator.type](x, operator.arguments)]


@operator_rule("PRelu")
def prelu(build: Builder, operator: Operator, x: Value, slope: Value) -> list[Value]:
    """``x`` where it is positive, else ``slope * x``; one slope for each channel, or one for all.

    Becomes: PReLU.
    Channels are axis 1, or the last one with ``order`` NHWC.
    Source: caffe2 ``operators/prelu_op.cc``.
    """
    rank = len(x.shape)
    axis = channel_axis(operator, x)
    count = merge_sizes(slope.shape)
    if count == 1:
        return [build.add(ops.PReLU(), x, build.reshape(slope, (1,) * rank))]
    if count != x.shape[axis]:
        raise misfit(operator, 1, slope, f"({x.shape[axis]},) or (1,)")
    return [build.add(ops.PReLU(), x, build.aligned(build.reshape(slope, (count,)), rank, axis))]


@operator_rule("Pow")
def power(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` to the power ``exponent``.

    Becomes: Power.
    """
    if not operator.arguments.has("exponent"):
        raise NetError("states no exponent", fix="add the argument exponent, as in exponent: 2.0")
    return [build.add(ops.Power(operator.arguments.number("exponent", 1.0)), x)]


@operator_rule("Glu")
def gated_linear_unit(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The first half of axis ``dim``, times the sigmoid of the second half.

    Becomes: Slice, Sigmoid, Multiply.
    """
    axis = axis_of(operator, x.shape, -1, "dim")
    size = fixed(x.shape[axis], f"axis {axis}")
    if size % 2:
        raise NetError(f"axis {axis} has {size} elements, expected an even number", fix=MEND_ARGUMENTS)
    value, gate = (x.slice(axis, start, size // 2) for start in (0, size // 2))
    return [value * gate.sigmoid()]
