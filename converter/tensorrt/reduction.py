"""Lowerings of reductions and of the few largest elements."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.errors import BuildError
from prototrt.converter.tensorrt.elementwise import elementwise, number_like
from prototrt.converter.tensorrt.lowering import lowers
from prototrt.converter.tensorrt.network import Network, Tensor
from prototrt.converter.tensorrt.shape import shuffled
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
    """TopK over the axis back to front.

    Of equal elements TensorRT's TopK takes the first one first: turned round, that is the last.
    """
    if op.count > MOST_OF_TOP_K:
        raise BuildError(
            f"the {op.count} largest elements are asked for, expected at most {MOST_OF_TOP_K}",
            origin=network.origin,
            because="that is all that TensorRT's TopK gives",
            fix=f"set top_k to {MOST_OF_TOP_K} or less",
        )
    size = x.shape[op.axis]
    if len(x.shape) == 1:  # TopK wants two axes
        rows = top_k(network, TopK(1, op.count), shuffled(network, x, (1, size)))
        return [shuffled(network, row, (op.count,)) for row in rows]
    order = network.constant_array(np.arange(size - 1, -1, -1, dtype=np.int32))
    backwards = network.add("gather", x, order, op.axis).get_output(0)
    largest = network.enum("TopKOperation", "MAX")
    layer = network.add("topk", backwards, largest, op.count, 1 << op.axis)
    values, places = layer.get_output(0), layer.get_output(1)
    return [values, elementwise(network, number_like(network, places, size - 1), places, "SUB")]
