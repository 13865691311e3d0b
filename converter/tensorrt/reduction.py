"""Lowerings of reductions and of the few largest elements."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.errors import BuildError
from prototrt.converter.tensorrt.lowering import lowers
from prototrt.converter.tensorrt.network import Network, Tensor
from prototrt.converter.tensorrt.pointwise import elementwise, number_like
from prototrt.converter.tensorrt.windows import shuffled
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import Reduce, ReduceKind, TopK

MOST_OF_TOP_K = 3840
"""Elements that TensorRT's TopK can give."""
_REDUCE = {ReduceKind.SUM: "SUM", ReduceKind.MEAN: "AVG"}


@lowers(Reduce)
def reduce(network: Network, op: Reduce, x: Tensor) -> list[Tensor]:
    return [_reduced(network, x, _REDUCE[op.kind], op.axes, op.keep)]


def _reduced(network: Network, x: Tensor, kind: str, axes: tuple[int, ...], keep: bool) -> Tensor:
    mask = sum(1 << axis for axis in axes)
    return network.add("reduce", x, network.enum("ReduceOperation", kind), mask, keep).get_output(0)


@lowers(TopK)
def top_k(network: Network, op: TopK, x: Tensor) -> list[Tensor]:
    """Of equal elements the last comes first, which is not what TensorRT's TopK does."""
    return _largest(network, op.axis, x) if op.count == 1 else _several_largest(network, op, x)


def _largest(network: Network, axis: int, x: Tensor) -> list[Tensor]:
    """The maximum, and the largest of the indices at which it stands."""
    value = _reduced(network, x, "MAX", (axis,), keep=True)
    is_largest = elementwise(network, x, value, "EQUAL")
    indices = _along(axis, np.arange(x.shape[axis], dtype=np.int32), len(x.shape))
    nowhere = np.full((1,) * len(x.shape), -1, np.int32)
    places = network.add(
        "select", is_largest, network.constant_array(indices), network.constant_array(nowhere)
    )
    return [value, _reduced(network, places.get_output(0), "MAX", (axis,), keep=True)]


def _several_largest(network: Network, op: TopK, x: Tensor) -> list[Tensor]:
    """TopK over the axis back to front: the first of equals is then the last."""
    if op.count > MOST_OF_TOP_K:
        raise BuildError(
            f"the {op.count} largest elements are asked for, expected at most {MOST_OF_TOP_K}",
            origin=network.origin,
            because="that is all that TensorRT's TopK gives",
            fix=f"set top_k to {MOST_OF_TOP_K} or less",
        )
    size = x.shape[op.axis]
    if len(x.shape) == 1:  # TopK wants two axes
        rows = _several_largest(network, TopK(1, op.count), shuffled(network, x, (1, size)))
        return [shuffled(network, row, (op.count,)) for row in rows]
    order = network.constant_array(np.arange(size - 1, -1, -1, dtype=np.int32))
    backwards = network.add("gather", x, order, op.axis).get_output(0)
    largest = network.enum("TopKOperation", "MAX")
    layer = network.add("topk", backwards, largest, op.count, 1 << op.axis)
    values, places = layer.get_output(0), layer.get_output(1)
    return [values, elementwise(network, number_like(network, places, size - 1), places, "SUB")]


def _along(axis: int, numbers: Array, rank: int) -> Array:
    """Numbers along one axis of an array of this rank."""
    return numbers.reshape([-1 if index == axis else 1 for index in range(rank)])
