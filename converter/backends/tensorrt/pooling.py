"""Lowerings of pooling. TensorRT does not report what its windows see, or where: two of four lay them out."""

from __future__ import annotations

import math

import numpy as np

from prototrt.converter.backends.tensorrt.elementwise import elementwise
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Layer, Network, Tensor
from prototrt.converter.backends.tensorrt.windows import (
    gather_windows,
    lift_of,
    pad_spatially,
    window_places,
    with_unit_axes,
)
from prototrt.surgery.ir import Array, Shape
from prototrt.surgery.ops import AveragePool, MaxPool, MaxPoolIndex, StochasticPool

_LOWEST = float(np.finfo(np.float32).min)
_REDUCE = {"MAX": "MAX", "AVERAGE": "AVG"}


@lowers(MaxPool)
def max_pool(network: Network, op: MaxPool, x: Tensor) -> list[Tensor]:
    return [_pool(network, op, x, "MAX")]


@lowers(AveragePool)
def average_pool(network: Network, op: AveragePool, x: Tensor) -> list[Tensor]:
    return [_pool(network, op, x, "AVERAGE")]


def _pool(network: Network, op: MaxPool | AveragePool, x: Tensor, kind: str) -> Tensor:
    if _sees_everything(op, network.input_shape):
        # One window over everything may be larger than TensorRT's windows.
        axes = sum(1 << axis for axis in range(2, 2 + len(op.window)))
        return network.add(
            "reduce", x, network.enum("ReduceOperation", _REDUCE[kind]), axes, True
        ).get_output(0)
    lift = lift_of(op.stride)

    def padded(image: Tensor) -> Tensor:
        layer = pool(network, image, kind, (1,) * lift + op.window, (1,) * lift + op.stride)
        layer.pre_padding, layer.post_padding = (0,) * lift + op.before, (0,) * lift + op.after
        if kind == "AVERAGE":
            layer.average_count_excludes_padding = True
        return layer.get_output(0)

    return with_unit_axes(network, x, lift, padded)


def _sees_everything(op: MaxPool | AveragePool, x: Shape) -> bool:
    """Whether there is one window, over all elements: its padding does not count."""
    (out,) = op.shape(x)
    seen = zip(x[2:], op.before, op.window, strict=True)
    return all(dim == 1 for dim in out[2:]) and all(
        isinstance(size, int) and before + size <= window for size, before, window in seen
    )


def pool(network: Network, x: Tensor, kind: str, window: tuple[int, ...], stride: tuple[int, ...]) -> Layer:
    """One of TensorRT's pooling layers; sizes round down, nothing is padded."""
    layer = network.add("pooling_nd", x, network.enum("PoolingType", kind), window)
    layer.padding_mode = network.enum("PaddingMode", "EXPLICIT_ROUND_DOWN")
    layer.stride_nd = stride
    return layer


@lowers(MaxPoolIndex)
def max_pool_index(network: Network, op: MaxPoolIndex, x: Tensor) -> list[Tensor]:
    """The smallest index among the elements that equal their window's maximum.

    The indices of what each window sees are known now: they are a constant.
    """
    places = np.arange(x.shape[2] * x.shape[3], dtype=np.float32).reshape(tuple(x.shape)[2:])
    padded = np.pad(places, list(zip(op.before, op.after, strict=True)), constant_values=np.inf)
    seen = gather_windows(
        network, pad_spatially(network, x, op.before, op.after, -math.inf), op.window, op.stride, (1, 1)
    )
    largest = _over_places(network, seen, "MAX")
    is_largest = elementwise(network, seen, largest, "EQUAL")
    candidates = _select(network, is_largest, _indices(padded, op), math.inf)
    first = _over_places(network, candidates, "MIN")
    # A maximum that is the lowest number itself is larger than nothing.
    counts = elementwise(network, largest, _constant(network, _LOWEST, 6), "GREATER")
    index = network.add("select", counts, first, _constant(network, -1.0, 6)).get_output(0)
    layer = network.add("shuffle", index)
    layer.reshape_dims = (0, 0, *tuple(index.shape)[4:])
    return [layer.get_output(0)]


def _indices(padded: Array, op: MaxPoolIndex) -> Array:
    """The indices of what each window sees: (1, 1, places, places, windows, windows)."""
    rows, columns = window_places(padded.shape, op.window, op.stride, (1, 1))
    return np.asarray(padded[rows[:, None, :, None], columns[None, :, None, :]][None, None])


def _over_places(network: Network, x: Tensor, kind: str) -> Tensor:
    axes = 1 << 2 | 1 << 3
    return network.add("reduce", x, network.enum("ReduceOperation", kind), axes, True).get_output(0)


def _select(network: Network, condition: Tensor, chosen: Array, other: float) -> Tensor:
    """An element of ``chosen`` where the condition holds, else ``other``."""
    constants = network.constant_array(chosen), _constant(network, other, chosen.ndim)
    return network.add("select", condition, *constants).get_output(0)


def _constant(network: Network, number: float, rank: int) -> Tensor:
    return network.constant_array(np.full((1,) * rank, number, np.float32))


@lowers(StochasticPool)
def stochastic_pool(network: Network, op: StochasticPool, x: Tensor) -> list[Tensor]:
    """The ratio of two means over whole windows: what is divided by in both drops out."""
    image = pad_spatially(network, x, op.before, op.after, 0.0)
    squares = elementwise(network, image, image, "PROD")
    mean, of_squares = (
        pool(network, tensor, "AVERAGE", op.window, op.stride).get_output(0) for tensor in (image, squares)
    )
    zero, one = _constant(network, 0.0, 4), _constant(network, 1.0, 4)
    is_positive = elementwise(network, mean, zero, "GREATER")
    divisor = network.add("select", is_positive, mean, one).get_output(0)
    ratio = elementwise(network, of_squares, divisor, "DIV")
    return [network.add("select", is_positive, ratio, zero).get_output(0)]
