"""Activations: element-wise functions between the layers of a net."""

from __future__ import annotations

import math

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery import ops
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule
from prototrt.surgery.building.limits import MOST_AXES
from prototrt.surgery.ir import fixed


@layer_rule("ReLU")
def relu(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``max(x, 0) + negative_slope * min(x, 0)``. The field ``engine`` never changes the result.

    Becomes: LeakyReLU; Clip; with a limit also Minimum; for a second top Greater, Cast.
    Of Synopsys: the result is at most 6 with ``relu6``.
    Bottoms: ``x``, any shape. Tops: the shape of ``x``; in DeconvNet's fork a second one is 1 where ``x`` is positive,
    else 0.
    Source: caffe ``src/caffe/layers/relu_layer.cpp``, ``Forward_cpu``; the same of HyeonwooNoh/caffe and of
    foss-for-synopsys-dwc-arc-processors/synopsys-caffe.
    """
    param = layer.param
    top = _limit(build, x, param.negative_slope, 6.0 if param.relu6 else None)
    return [top] if len(layer.tops) < 2 else [top, _is_above(x, 0)]


@layer_rule("Insanity")
def insanity(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``max(x, 0) + min(x, 0) / divisor``, the divisor in the middle of the drawn ones. From forks.

    Becomes: LeakyReLU.
    While it trains, a divisor is drawn from ``lb`` to ``ub`` for each number; else it is
    ``(ub - lb) / (log(ub) - log(lb))``.
    Source: happynear/caffe-windows ``src/caffe/layers/insanity_layer.cpp``.
    """
    lower, upper = layer.param.lb, layer.param.ub
    if not 0 < lower < upper:
        raise NetError(
            f"lb is {lower:g} and ub {upper:g}, expected 0 < lb < ub",
            fix="state lb and ub as the net was trained with",
        )
    slope = math.log(upper / lower) / (upper - lower)
    return [build.add(ops.LeakyReLU(slope), x)]


def _limit(build: LayerBuilder, x: Value, slope: float, limit: float | None) -> Value:
    """``max(x, 0) + slope * min(x, 0)``, or the limit, if that is smaller."""
    if limit is None:
        return build.add(ops.LeakyReLU(slope), x)
    if slope == 0:
        return build.add(ops.Clip(0, limit), x)
    return build.add(ops.MINIMUM, build.add(ops.LeakyReLU(slope), x), build.scalar(limit, len(x.shape)))


def _is_above(x: Value, limit: float) -> Value:
    """1 where ``x`` is above the limit, else 0."""
    return (x > limit).cast(x.dtype)


@layer_rule("ReLU6")
def relu6(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``min(max(x, 0) + negative_slope * min(x, 0), 6)``. From the forks that run MobileNet.

    Becomes: Clip; LeakyReLU, Minimum.
    The slope is that of ``relu6_param`` or of ``relu_param``.
    Source: eric612/MobileNet-YOLO and NVIDIA/caffe ``src/caffe/layers/relu6_layer.cpp``.
    """
    is_own = layer.message.HasField("relu6_param")
    slope = (layer.message.relu6_param if is_own else layer.param).negative_slope
    return [_limit(build, x, slope, 6)]


@layer_rule("PReLU")
def prelu(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``max(x, 0) + slope * min(x, 0)`` with learned slopes, one per channel or one for all.

    Becomes: PReLU.
    Bottoms: ``x``, (N, C, ...), at least two axes. Tops: one, the shape of ``x``.
    Blobs: slopes (C,), or () with ``channel_shared``.
    Source: caffe ``src/caffe/layers/prelu_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, ...)", 2, MOST_AXES)
    shape = () if layer.param.channel_shared else (fixed(x.shape[1], "axis 1 (channels)"),)
    slopes = build.parameter(layer, shape, "slopes", filler="filler", kind="slope")
    return [build.add(ops.PReLU(), x, build.aligned(slopes, len(x.shape), 1 if shape else 0))]


@layer_rule("ELU")
def elu(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    Becomes: ELU.
    Source: caffe ``src/caffe/layers/elu_layer.cpp``.
    """
    return [build.add(ops.ELU(layer.param.alpha), x)]


@layer_rule("Clip")
def clip(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``max(min, min(x, max))``. Where ``min`` is above ``max``, that is ``min`` everywhere. NaN becomes ``min``.

    Becomes: Clip, Greater, Select.
    Caffe compares on a CPU so that NaN becomes ``min``, but backends differ: so a comparison, which is false, decides.
    Source: caffe ``src/caffe/layers/clip_layer.cpp``.
    """
    low = layer.param.min
    clipped = build.add(ops.Clip(low, layer.param.max), x)
    return [(x > low).chosen(clipped, low)]


@layer_rule("Swish")
def swish(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x * sigmoid(beta * x)``.

    Becomes: Sigmoid, Multiply.
    Source: caffe ``src/caffe/layers/swish_layer.cpp``.
    """
    return [x * x.scaled(layer.param.beta).sigmoid()]


@layer_rule("SeLU", "SeLu")
def selu(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``lambda * x`` where it is positive, else ``lambda * alpha * (exp(x) - 1)``. From forks.

    Becomes: ELU, Multiply.
    Source: synopsys-caffe and fireae/caffe_latte ``src/caffe/layers/selu_layer.cpp``.
    """
    factor = getattr(layer.param, "lambda")
    return [build.add(ops.ELU(layer.param.alpha), x).scaled(factor)]


@layer_rule("BNLL")
def bnll(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``log(1 + exp(x))``, written so that no large x overflows: ``max(x, 0) + log(1 + exp(-|x|))``.

    Becomes: Abs, Negative, Exp, Log, Maximum, Add.
    Source: caffe ``src/caffe/layers/bnll_layer.cpp``.
    """
    return [_softplus(x)]


def _softplus(x: Value) -> Value:
    bend = ((-abs(x)).exp() + 1).log()
    return x.at_least(0) + bend


@layer_rule("Mish")
def mish(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x * tanh(log(1 + exp(x)))``. From the forks that run YOLO v4.

    Becomes: Abs, Negative, Exp, Log, Maximum, Add, TanH, Multiply.
    Source: the forks' ``src/caffe/layers/mish_layer.cpp`` and ``mish_layer.cu``.
    """
    return [x * _softplus(x).tanh()]


@layer_rule("Threshold")
def threshold(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """1 where ``x`` is above ``threshold``, else 0: also where it is equal, or not a number.

    Becomes: Greater, Cast.
    Source: caffe ``src/caffe/layers/threshold_layer.cpp``.
    """
    return [_is_above(x, layer.param.threshold)]


@layer_rule("Sigmoid")
def sigmoid(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``1 / (1 + exp(-x))``.

    Becomes: Sigmoid.
    Source: caffe ``src/caffe/layers/sigmoid_layer.cpp``.
    """
    return [build.add(ops.Sigmoid(), x)]


@layer_rule("TanH")
def tanh(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``tanh(x)``.

    Becomes: TanH.
    Source: caffe ``src/caffe/layers/tanh_layer.cpp``.
    """
    return [build.add(ops.TanH(), x)]
