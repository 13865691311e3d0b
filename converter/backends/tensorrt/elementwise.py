"""Lowerings of functions of one element, of two, and of copies in another type."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import Binary, BinaryKind, Cast, Identity, Power, Unary, UnaryKind

_OTHER_NAMES = {
    BinaryKind.ADD: "SUM",
    BinaryKind.SUBTRACT: "SUB",
    BinaryKind.MULTIPLY: "PROD",
    BinaryKind.DIVIDE: "DIV",
    BinaryKind.MAXIMUM: "MAX",
    BinaryKind.MINIMUM: "MIN",
    UnaryKind.NEGATIVE: "NEG",
}
"""TensorRT's operations that are not called as our kinds are."""


def _operation(kind: BinaryKind | UnaryKind) -> str:
    return _OTHER_NAMES.get(kind, kind.name)


def elementwise(network: Network, a: Tensor, b: Tensor, kind: str) -> Tensor:
    """One of TensorRT's functions of two elements."""
    return network.add("elementwise", a, b, network.enum("ElementWiseOperation", kind)).get_output(0)


def unary_layer(network: Network, x: Tensor, kind: str) -> Tensor:
    """One of TensorRT's functions of one element."""
    return network.add("unary", x, network.enum("UnaryOperation", kind)).get_output(0)


def number_like(network: Network, x: Tensor, number: float) -> Tensor:
    """A constant of the rank and type of x, which broadcasts against it."""
    return network.constant_array(np.full((1,) * len(x.shape), number, network.dtype_of(x)))


@lowers(Binary)
def binary(network: Network, op: Binary, a: Tensor, b: Tensor) -> list[Tensor]:
    return [elementwise(network, a, b, _operation(op.kind))]


@lowers(Unary)
def unary(network: Network, op: Unary, x: Tensor) -> list[Tensor]:
    return [unary_layer(network, x, _operation(op.kind))]


@lowers(Power)
def power(network: Network, op: Power, x: Tensor) -> list[Tensor]:
    """Whole exponents become operations that TensorRT also defines for a negative x."""
    if not float(op.exponent).is_integer():
        return [elementwise(network, x, number_like(network, x, op.exponent), "POW")]
    whole = _whole_power(network, x, abs(op.exponent))
    return [whole if op.exponent >= 0 else unary_layer(network, whole, "RECIP")]


def _whole_power(network: Network, x: Tensor, exponent: float) -> Tensor:
    """``x ** exponent`` for a whole exponent that is not negative."""
    if exponent == 1:
        return x
    if exponent == 2:  # by far the most frequent
        return elementwise(network, x, x, "PROD")
    if exponent % 2:
        return elementwise(network, x, _whole_power(network, x, exponent - 1), "PROD")
    magnitude = unary_layer(network, x, "ABS")
    return elementwise(network, magnitude, number_like(network, x, exponent), "POW")


@lowers(Cast)
def cast(network: Network, op: Cast, x: Tensor) -> list[Tensor]:
    return [network.add("cast", x, network.backend.dtype(op.to)).get_output(0)]


@lowers(Identity)
def identity(network: Network, op: Identity, x: Tensor) -> list[Tensor]:
    return [network.add("identity", x).get_output(0)]
