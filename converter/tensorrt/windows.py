"""Lowerings of what slides over the last axes."""

from __future__ import annotations

from collections.abc import Callable

from prototrt.converter.tensorrt.lowering import lowers
from prototrt.converter.tensorrt.network import Layer, Network, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import AveragePool, Convolution, MaxPool


@lowers(Convolution)
def convolution(network: Network, op: Convolution, x: Tensor, kernel: Array, bias: Array) -> list[Tensor]:
    # A convolution over one axis is one over two, of which the first has the size 1.
    lift = max(0, 2 - len(op.stride))
    window = (1,) * lift + kernel.shape[2:]

    def convolve(image: Tensor) -> Tensor:
        weights = network.weights(kernel), network.weights(bias)
        layer = network.add("convolution_nd", image, kernel.shape[0], window, *weights)
        layer.stride_nd = (1,) * lift + op.stride
        layer.padding_nd = (0,) * lift + op.pad
        layer.dilation_nd = (1,) * lift + op.dilation
        layer.num_groups = op.group
        return layer.get_output(0)

    return [_lifted(network, x, lift, convolve)]


def _lifted(network: Network, x: Tensor, lift: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """``function`` over x (N, C, ...) with ``lift`` axes of size 1 behind the channels."""
    if not lift:
        return function(x)
    sizes = tuple(x.shape)
    y = function(shuffled(network, x, (*sizes[:2], *(1,) * lift, *sizes[2:])))
    sizes = tuple(y.shape)
    return shuffled(network, y, (*sizes[:2], *sizes[2 + lift :]))


def shuffled(network: Network, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The same elements in a shape of known sizes."""
    layer = network.add("shuffle", x)
    layer.reshape_dims = sizes
    return layer.get_output(0)


@lowers(MaxPool)
def max_pool(network: Network, op: MaxPool, x: Tensor) -> list[Tensor]:
    return [_pool(network, op, x, "MAX").get_output(0)]


@lowers(AveragePool)
def average_pool(network: Network, op: AveragePool, x: Tensor) -> list[Tensor]:
    layer = _pool(network, op, x, "AVERAGE")
    layer.average_count_excludes_padding = True
    return [layer.get_output(0)]


def _pool(network: Network, op: MaxPool | AveragePool, x: Tensor, kind: str) -> Layer:
    layer = network.add("pooling_nd", x, network.enum("PoolingType", kind), op.window)
    layer.padding_mode = network.enum("PaddingMode", "EXPLICIT_ROUND_DOWN")
    layer.stride_nd, layer.pre_padding, layer.post_padding = op.stride, op.before, op.after
    return layer
