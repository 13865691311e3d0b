"""Lowerings of what works element by element."""

from __future__ import annotations

from prototrt.converter.tensorrt.lowering import lowers
from prototrt.converter.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import Binary, BinaryKind, Cast, Identity, LeakyReLU, Sigmoid, TanH

_BINARY = {
    BinaryKind.ADD: "SUM",
    BinaryKind.SUBTRACT: "SUB",
    BinaryKind.MULTIPLY: "PROD",
    BinaryKind.DIVIDE: "DIV",
    BinaryKind.MAXIMUM: "MAX",
    BinaryKind.MINIMUM: "MIN",
}


def activation(network: Network, x: Tensor, kind: str, alpha: float | None = None) -> list[Tensor]:
    """One of TensorRT's activation layers."""
    layer = network.add("activation", x, network.enum("ActivationType", kind))
    if alpha is not None:
        layer.alpha = alpha
    return [layer.get_output(0)]


@lowers(LeakyReLU)
def leaky_relu(network: Network, op: LeakyReLU, x: Tensor) -> list[Tensor]:
    return activation(network, x, "LEAKY_RELU", op.slope) if op.slope else activation(network, x, "RELU")


@lowers(Sigmoid)
def sigmoid(network: Network, op: Sigmoid, x: Tensor) -> list[Tensor]:
    return activation(network, x, "SIGMOID")


@lowers(TanH)
def tanh(network: Network, op: TanH, x: Tensor) -> list[Tensor]:
    return activation(network, x, "TANH")


@lowers(Binary)
def binary(network: Network, op: Binary, a: Tensor, b: Tensor) -> list[Tensor]:
    kind = network.enum("ElementWiseOperation", _BINARY[op.kind])
    return [network.add("elementwise", a, b, kind).get_output(0)]


@lowers(Cast)
def cast(network: Network, op: Cast, x: Tensor) -> list[Tensor]:
    return [network.add("cast", x, network.backend.dtype(op.to)).get_output(0)]


@lowers(Identity)
def identity(network: Network, op: Identity, x: Tensor) -> list[Tensor]:
    return [network.add("identity", x).get_output(0)]
