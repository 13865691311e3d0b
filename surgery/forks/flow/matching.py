"""How much each neighbour of a place counts for its flow. From LiteFlowNet."""

from __future__ import annotations

import math

import numpy as np

from prototrt.surgery.rules import Layer, LayerBuilder, NetError, Value, expect_axes, layer_rule


@layer_rule("NegSquare")
def negative_square(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``-x * x``. From LiteFlowNet.

    Becomes: Multiply, Negative.
    Source: twhui/LiteFlowNet ``src/caffe/layers/negsquare_layer.cu``.
    """
    return [-(x * x)]


@layer_rule("ExpMax")
def exp_below_largest(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``base ** (shift + scale * (x - m))``, m the largest of all channels; a base of -1 is e. From LiteFlowNet.

    Becomes: Reduce, Subtract, Exp, Multiply.
    Bottoms: (1, C, H, W): the source finds the largest of the first image alone. Tops: the same shape.
    Source: twhui/LiteFlowNet ``src/caffe/layers/expmax_layer.cu``, ``expmax_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(1, C, H, W)")
    param = layer.param
    if x.shape[0] != 1:
        raise NetError(
            f"axis 0 has a size of {x.shape[0]}, expected 1",
            because="LiteFlowNet finds the largest channel of the first image alone",
            fix="use a batch of 1",
        )
    if param.base != -1 and not 0 < param.base < math.inf:
        raise NetError(f"base is {param.base:g}, expected more than 0", fix="remove base to use e")
    log_base = 1.0 if param.base == -1 else math.log(param.base)
    with np.errstate(all="ignore"):  # the source goes on with infinity, too
        outer = np.float32(np.exp(np.float64(param.shift) * log_base))
    below = (x - x.largest(1)).scaled(log_base * param.scale)
    return [below.exp().scaled(float(outer))]
