"""Lowering of suppression to TensorRT's NMS layer, which TensorRT for RTX does not run."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.tensorrt.elementwise import elementwise, number_like
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import NonMaxSuppression


@lowers(NonMaxSuppression)
def non_max_suppression(
    network: Network, op: NonMaxSuppression, boxes: Tensor, is_candidate: Tensor
) -> list[Tensor]:
    """Ranks replace scores, so that TensorRT keeps the order of the list. Boxes that are not candidates have 0."""
    lists, size = (fixed(dim, "the number of boxes") for dim in network.shape)
    ranks = network.constant_array(np.arange(size, 0, -1, dtype=np.float32)[None])
    none = network.constant_array(np.zeros((1, 1), np.float32))
    scores = network.add("shuffle", network.add("select", is_candidate, ranks, none).get_output(0))
    scores.reshape_dims = (lists, size, 1)
    layer = network.add("nms", boxes, scores.get_output(0), network.constant_array(np.array(size, np.int32)))
    layer.topk_box_limit = size
    layer.set_input(3, network.constant_array(np.array(op.threshold, np.float32)))
    layer.set_input(4, network.constant_array(np.array(0, np.float32)))
    rows = layer.get_output(0)  # rows of list, class, place
    list_of_each, place = (_column(network, rows, column) for column in (0, 2))
    start = elementwise(network, list_of_each, number_like(network, list_of_each, size), "PROD")
    index = elementwise(network, start, place, "SUM")
    nowhere = elementwise(network, index, number_like(network, index, 0), "PROD")
    ones = elementwise(network, nowhere, number_like(network, nowhere, 1), "SUM")
    nothing = network.constant_array(np.zeros(lists * size, np.int32))
    scattered = network.add("scatter", nothing, index, ones, network.enum("ScatterMode", "ELEMENT"))
    scattered.axis = 0
    kept = network.add("shuffle", scattered.get_output(0))
    kept.reshape_dims = (lists, size)
    return [network.add("cast", kept.get_output(0), network.trt.bool).get_output(0)]


def _column(network: Network, table: Tensor, column: int) -> Tensor:
    """One column of a table, of whatever length."""
    place = network.constant_array(np.array(column, np.int32))
    return network.add("gather", table, place, 1).get_output(0)
