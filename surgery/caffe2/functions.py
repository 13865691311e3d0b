"""Element-wise functions that consist of several primitives."""

from __future__ import annotations

import math

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import axis_of, operator_rule
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import (
    ELU,
    ERF,
    Clip,
    HardSigmoid,
    LeakyReLU,
    Power,
)


@operator_rule("Cube")
def cube(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x * x * x``.

    Becomes: Multiply.
    """
    return [x * x * x]


@operator_rule("Reciprocal", "Rsqrt")
def reciprocal(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``1 / x``; ``1 / sqrt(x)``.

    Becomes: Divide; Sqrt.
    """
    return [1 / (x.sqrt() if operator.type == "Rsqrt" else x)]


@operator_rule("Pow")
def power(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` to the power ``exponent``.

    Becomes: Power.
    """
    if not operator.arguments.has("exponent"):
        raise NetError("states no exponent", fix="add the argument exponent, as in exponent: 2.0")
    return [build.add(Power(operator.arguments.number("exponent", 1.0)), x)]


@operator_rule("Softplus", "Mish")
def softplus(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``log(1 + exp(x))``; Mish is ``x tanh`` of that.

    Becomes: LeakyReLU, Abs, Negative, Exp, Log, Add; TanH, Multiply for Mish.
    """
    # log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
    small = (-abs(x)).exp()
    soft = (x.apply(LeakyReLU()) + (small + 1.0).log()).named("softplus")
    return [soft if operator.type == "Softplus" else x * soft.tanh()]


@operator_rule("Gelu")
def gelu(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x / 2 * (1 + erf(x / sqrt(2)))``, with ``fast_gelu`` in its approximation by tanh.

    Becomes: Erf or TanH, Multiply, Add.
    """
    if operator.arguments.flag("fast_gelu"):
        curve = ((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)).tanh()
    else:
        curve = (x * math.sqrt(0.5)).apply(ERF)
    return [x * 0.5 * (curve + 1.0)]


@operator_rule("Selu")
def selu(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``scale * x`` where x is positive, else ``scale * alpha * (exp(x) - 1)``.

    Becomes: ELU, Multiply.
    """
    arguments = operator.arguments
    bent = build.add(ELU(arguments.number("alpha", 1.6732632423543772)), x)
    return [build.scaled(bent, arguments.number("scale", 1.0507009873554805))]


@operator_rule("HardSigmoid")
def hard_sigmoid(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``alpha * x + beta``, clipped to 0..1.

    Becomes: HardSigmoid.
    """
    arguments = operator.arguments
    return [build.add(HardSigmoid(arguments.number("alpha", 0.2), arguments.number("beta", 0.5)), x)]


@operator_rule("ThresholdedRelu")
def thresholded_relu(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` where it is larger than ``alpha``, else 0.

    Becomes: Greater, Select.
    """
    return [(x > operator.arguments.number("alpha", 1.0)).chosen(x, 0.0)]


@operator_rule("ReluN")
def relu_n(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``x`` between 0 and ``n``, by default 6.

    Becomes: Clip.
    """
    return [build.add(Clip(0.0, operator.arguments.number("n", 6.0)), x)]


@operator_rule("Logit")
def logit(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """``log(x / (1 - x))`` of x between ``eps`` and ``1 - eps``.

    Becomes: Clip, Subtract, Divide, Log.
    """
    epsilon = operator.arguments.number("eps", 1e-6)
    share = x.apply(Clip(epsilon, 1 - epsilon))
    return [(share / (1.0 - share)).log()]


@operator_rule("Glu")
def gated_linear_unit(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The first half of axis ``dim``, times the sigmoid of the second half.

    Becomes: Slice, Sigmoid, Multiply.
    """
    axis = axis_of(operator, x.shape, -1, "dim")
    size = fixed(x.shape[axis], f"axis {axis}")
    if size % 2:
        raise NetError(
            f"axis {axis} has {size} elements, expected an even number",
            fix=MEND_ARGUMENTS,
        )
    value, gate = (x.slice(axis, start, size // 2) for start in (0, size // 2))
    return [value * gate.sigmoid()]
