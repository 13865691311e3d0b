"""Lowerings of reductions and of the few largest elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.converter.backends.tensorrt.counting import count_from, size_like
from prototrt.converter.backends.tensorrt.elementwise import elementwise, number_like
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.converter.backends.tensorrt.shape import shuffle
from prototrt.surgery.ir import Size, computable
from prototrt.surgery.ops import Reduce, ReduceKind, TopK

MOST_OF_TOP_K = 3840
"""Elements that TensorRT's TopK can give."""
_REDUCE = {
    ReduceKind.SUM: "SUM",
    ReduceKind.MEAN: "AVG",
    ReduceKind.MAX: "MAX",
    ReduceKind.MIN: "MIN",
}


@lowers(Reduce)
def reduce(network: Network, op: Reduce, x: Tensor) -> list[Tensor]:
    kind, mask = network.enum("ReduceOperation", _REDUCE[op.kind]), sum(1 << axis for axis in op.axes)
    return [network.add("reduce", x, kind, mask, op.keep).get_output(0)]


@lowers(TopK)
def top_k(network: Network, op: TopK, x: Tensor) -> list[Tensor]:
    """TopK, on the reversed axis if the last of equal elements comes first: TensorRT's takes the first."""
    size = computable(network.input_shape[op.axis])
    if len(x.shape) == 1:  # TopK needs two axes
        row = shuffle(network, x, (1, x.shape[0]))
        columns = _largest(network, TopK(1, op.count, op.first_of_equals), row, size)
        return [shuffle(network, column, (op.count,)) for column in columns]
    return _largest(network, op, x, size)


def _largest(network: Network, op: TopK, x: Tensor, size: Size) -> list[Tensor]:
    """``size`` is that of the axis."""
    if op.first_of_equals:
        return _in_parts(network, x, op.axis, size, op.count)
    order = count_from(network, size, size - 1, -1)
    backwards = network.add("gather", x, order, op.axis).get_output(0)
    values, places = _in_parts(network, backwards, op.axis, size, op.count)
    return [values, elementwise(network, size_like(network, places, size - 1), places, "SUB")]


def _in_parts(network: Network, x: Tensor, axis: int, axis_size: Size, count: int) -> list[Tensor]:
    """As many TopKs as needed, each over the remaining elements; the first of equal elements comes first."""
    largest, parts = network.enum("TopKOperation", "MAX"), []
    while count:
        size = min(count, MOST_OF_TOP_K)
        layer = network.add("topk", x, largest, size, 1 << axis)
        parts.append((layer.get_output(0), layer.get_output(1)))
        count -= size
        if count:
            x = _left_over(network, x, axis, axis_size, size, *parts[-1])
    return [_join(network, tensors, axis) for tensors in zip(*parts, strict=True)]


def _left_over(
    network: Network, x: Tensor, axis: int, axis_size: Size, size: int, values: Tensor, places: Tensor
) -> Tensor:
    """``x`` with the lowest number instead of what a TopK of this ``size`` took."""
    value, place = (_last(network, tensor, axis, size) for tensor in (values, places))
    here = count_from(network, axis_size, shape=[-1 if each == axis else 1 for each in range(len(x.shape))])
    is_behind = elementwise(network, here, place, "GREATER")
    as_large = elementwise(network, elementwise(network, x, value, "EQUAL"), is_behind, "AND")
    is_left = elementwise(network, elementwise(network, value, x, "GREATER"), as_large, "OR")
    return network.add("select", is_left, x, number_like(network, x, -np.inf)).get_output(0)


def _last(network: Network, x: Tensor, axis: int, size: int) -> Tensor:
    """The last of ``size`` elements of an axis, which stays, with a size of 1."""
    return network.add("gather", x, network.constant_array(np.array([size - 1], np.int32)), axis).get_output(
        0
    )


def _join(network: Network, tensors: Sequence[Tensor], axis: int) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    layer = network.add("concatenation", list(tensors))
    layer.axis = axis
    return layer.get_output(0)
