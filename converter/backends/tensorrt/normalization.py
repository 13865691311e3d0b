"""Lowerings of scaling by channel and of normalization."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.tensorrt.elementwise import elementwise, number_like
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.converter.backends.tensorrt.shape import shuffle
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import LRN, Affine, Softmax


@lowers(Affine)
def affine(network: Network, op: Affine, x: Tensor, scale: Array, shift: Array) -> list[Tensor]:
    if x.dtype == network.trt.bfloat16:  # TensorRT's bindings cannot read back weights of bfloat16
        shape = (1, -1, *(1,) * (len(x.shape) - 2))
        factors, summands = (network.constant_array(each.reshape(shape)) for each in (scale, shift))
        return [elementwise(network, elementwise(network, x, factors, "PROD"), summands, "SUM")]
    power = network.trt.Weights(x.dtype)
    mode = network.enum("ScaleMode", "CHANNEL")
    layer = network.add("scale_nd", x, mode, network.weights(shift), network.weights(scale), power, 1)
    return [layer.get_output(0)]


@lowers(LRN)
def lrn(network: Network, op: LRN, x: Tensor) -> list[Tensor]:
    """TensorRT's own layer if it accepts the numbers, otherwise the same from smaller layers."""
    if op.size <= 15 and op.k >= 1e-5 and op.beta >= 0.01:
        return [network.add("lrn", x, op.size, op.alpha, op.beta, op.k).get_output(0)]
    mean = _mean_over_channels(network, elementwise(network, x, x, "PROD"), op.size)
    scaled = elementwise(network, mean, number_like(network, x, op.alpha), "PROD")
    base = elementwise(network, scaled, number_like(network, x, op.k), "SUM")
    factor = elementwise(network, base, number_like(network, x, -op.beta), "POW")
    return [elementwise(network, x, factor, "PROD")]


def _mean_over_channels(network: Network, x: Tensor, size: int) -> Tensor:
    """Of the ``size`` channels around each, zeros where there are none: a convolution of one pixel."""
    channels = np.arange(x.shape[1])
    is_near = np.abs(channels[:, None] - channels) <= size // 2
    kernel = (is_near / size).astype(np.float32)[:, :, None, None]
    nothing = network.weights(np.zeros(len(channels), np.float32))
    layer = network.add("convolution_nd", x, len(channels), (1, 1), network.weights(kernel), nothing)
    return layer.get_output(0)


@lowers(Softmax)
def softmax(network: Network, op: Softmax, x: Tensor) -> list[Tensor]:
    if len(x.shape) == 1:  # TensorRT needs two axes
        (row,) = softmax(network, Softmax(1), shuffle(network, x, (1, x.shape[0])))
        return [shuffle(network, row, (x.shape[0],))]
    layer = network.add("softmax", x)
    layer.axes = 1 << op.axis
    assert layer.axes == 1 << op.axis, "TensorRT keeps the old axes where it refuses new ones"
    return [layer.get_output(0)]
