"""Pass: multiply factors for each channel into the weights before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prototrt.caffe_proto.weights import drop_pages
from prototrt.surgery.ir import Array, Graph, Node, Value
from prototrt.surgery.ir.uniform_constants import map_elements
from prototrt.surgery.ir.verification import changes, needs
from prototrt.surgery.ops import Affine, Convolution, Deconvolution


@changes("other writers")
@needs(Affine)
def fold_affines(graph: Graph) -> Graph:
    """Compute an Affine with the convolution, or the Affine, whose result it scales.

    Before: ``c = Convolution(x, const k, const b)``, ``y = Affine(c, const scale, const shift)``
    After:  ``y = Convolution(x, const k * scale, const b * scale + shift)``
    Products and sums are rounded once, to the type of the weights.
    Left alone: a result with other readers, a graph output, and products that are not finite in that type.
    See docs/decisions.md, 0041.
    """
    readers, written = graph.readers(), dict[Value, int]()
    nodes: list[Node] = []
    for node in graph.nodes:
        place = written.get(node.inputs[0]) if isinstance(node.op, Affine) else None
        if place is not None and len(readers[node.inputs[0]]) == 1 and node.inputs[0] not in graph.outputs:
            folded = _fold(nodes[place], node)
            if folded is not None:
                nodes[place] = folded
                written[node.outputs[0]] = place
                continue
        if isinstance(node.op, (Affine, Convolution, Deconvolution)):
            written[node.outputs[0]] = len(nodes)
        nodes.append(node)
    return graph.with_nodes(nodes)


def _fold(producer: Node, affine: Node) -> Node | None:
    """The node that writes what the Affine writes; None if its weights are unknown or would not be numbers."""
    x, weights, bias = producer.inputs
    if weights.data is None or bias.data is None:
        return None
    scale, shift = (value.array for value in affine.inputs[1:])
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not folded
        # A product of two numbers of float32, or of 16 bits, is exact in the wider type: it is rounded once.
        factors = _by_channel(producer, weights.data, scale.astype(np.float32, copy=False))
        products = map_elements(
            lambda each, by: np.multiply(each, by, dtype=np.float32), weights.data, factors
        )
        wide = (array.astype(np.float64) for array in (bias.data, scale, shift))
        sums = map_elements(lambda b, factor, summand: b * factor + summand, *wide)
        read = _with_data(weights, products), _with_data(bias, sums)
    if not all(np.isfinite(value.array).all() for value in read):
        return None
    drop_pages(weights.data)  # else TensorRT's builder has them in memory twice
    return replace(producer, inputs=(x, *read), outputs=affine.outputs)


def _by_channel(producer: Node, weights: Array, scale: Array) -> Array:
    """The factors (C,) in the shape of the weights.

    Those are (C, I/group, ...) of a Convolution, (I, C/group, ...) of a Deconvolution, and (C,) of an Affine.
    """
    ones = (1,) * (weights.ndim - 2)
    if isinstance(producer.op, Affine):
        return scale
    if not isinstance(producer.op, Deconvolution):
        return np.broadcast_to(scale.reshape(-1, 1, *ones), weights.shape)
    group = producer.op.group
    rows = np.repeat(scale.reshape(group, -1), len(weights) // group, axis=0)
    return np.broadcast_to(rows.reshape(*weights.shape[:2], *ones), weights.shape)


def _with_data(value: Value, data: Array) -> Value:
    return replace(value, data=map_elements(lambda each: each.astype(value.dtype.numpy, copy=False), data))
