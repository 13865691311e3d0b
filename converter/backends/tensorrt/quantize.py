"""Lowerings of numbers of 8 bits."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import Array, DType
from prototrt.surgery.ops import Dequantize, Quantize


@lowers(Quantize)
def quantize(network: Network, op: Quantize, x: Tensor, scale: Array) -> list[Tensor]:
    layer = network.add("quantize", x, network.constant_array(scale), network.backend.dtype(op.to))
    if op.axis is not None:
        layer.axis = op.axis
    return [layer.get_output(0)]


@lowers(Dequantize)
def dequantize(network: Network, op: Dequantize, x: Tensor | Array, scale: Array) -> list[Tensor]:
    factors = network.constant_array(scale)
    numbers = _weights(network, op, x) if isinstance(x, np.ndarray) else x
    layer = network.add("dequantize", numbers, factors, factors.dtype)
    if op.axis is not None:
        layer.axis = op.axis
    return [layer.get_output(0)]


def _weights(network: Network, op: Dequantize, numbers: Array) -> Tensor:
    """Weights of 8 bits. TensorRT's bindings cannot read back float8: it is quantized when the engine is built.

    TensorRT for RTX 1.7.1 crashes where a product reads weights that are quantized by one scale, and dequantized by one
    for each channel.
    """
    if numbers.dtype.name != DType.FLOAT8.value:
        return network.constant_array(numbers)
    ones = np.ones(() if op.axis is None else numbers.shape[op.axis], np.float16)
    layer = network.add(
        "quantize",
        network.constant_array(numbers.astype(np.float16)),
        network.constant_array(ones),
        network.backend.dtype(DType.FLOAT8),
    )
    if op.axis is not None:
        layer.axis = op.axis
    return layer.get_output(0)
