"""Lowerings of activations."""

from __future__ import annotations

import math

from prototrt.converter.backends.tensorrt.elementwise import elementwise, number_like
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import ELU, Clip, HardSigmoid, LeakyReLU, PReLU, Sigmoid, Softsign, TanH


def activation(
    network: Network, x: Tensor, kind: str, alpha: float | None = None, beta: float | None = None
) -> list[Tensor]:
    """One of TensorRT's activation layers."""
    layer = network.add("activation", x, network.enum("ActivationType", kind))
    if alpha is not None:
        layer.alpha = alpha
    if beta is not None:
        layer.beta = beta
    return [layer.get_output(0)]


@lowers(LeakyReLU)
def leaky_relu(network: Network, op: LeakyReLU, x: Tensor) -> list[Tensor]:
    return activation(network, x, "LEAKY_RELU", op.slope) if op.slope else activation(network, x, "RELU")


@lowers(Sigmoid, Softsign, TanH)
def by_name(network: Network, op: Sigmoid | Softsign | TanH, x: Tensor) -> list[Tensor]:
    return activation(network, x, type(op).__name__.upper())


@lowers(Clip)
def clip(network: Network, op: Clip, x: Tensor) -> list[Tensor]:
    """TensorRT's own layer, which refuses infinite bounds: those bound nothing, and are left out."""
    if math.isfinite(op.low) and math.isfinite(op.high):
        return activation(network, x, "CLIP", op.low, op.high)
    y = network.add("identity", x).get_output(0)
    if op.high != math.inf:
        y = elementwise(network, y, number_like(network, y, op.high), "MIN")
    if op.low != -math.inf:
        y = elementwise(network, y, number_like(network, y, op.low), "MAX")
    return [y]


@lowers(ELU)
def elu(network: Network, op: ELU, x: Tensor) -> list[Tensor]:
    return activation(network, x, "ELU", op.alpha)


@lowers(HardSigmoid)
def hard_sigmoid(network: Network, op: HardSigmoid, x: Tensor) -> list[Tensor]:
    return activation(network, x, "HARD_SIGMOID", op.alpha, op.beta)


@lowers(PReLU)
def prelu(network: Network, op: PReLU, x: Tensor, slope: Tensor) -> list[Tensor]:
    return [network.add("parametric_relu", x, slope).get_output(0)]
