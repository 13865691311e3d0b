"""Pass: multiply factors for each channel into the weights of the convolution before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prototrt.surgery.ir import Array, Graph, Node, Value
from prototrt.surgery.ir.uniform_constants import map_elements
from prototrt.surgery.ir.verification import changes, needs
from prototrt.surgery.ops import Affine, Convolution, Deconvolution


@changes("other writers")
@needs(Affine)
def fold_affines(graph: Graph) -> Graph:
    """Compute an Affine with the convolution whose result it scales.

    Before: ``c = Convolution(x, const k, const b)``, ``y = Affine(c, const scale, const shift)``
    After:  ``y = Convolution(x, const k * scale, const b * scale + shift)``
    Weights are quantized for each channel of the result: BatchNorm and Scale must be in them before.
    Left alone: a convolution with other readers, a graph output, and factors that are not finite.
    """
    readers, written = graph.readers(), dict[Value, int]()
    nodes: list[Node] = []
    for node in graph.nodes:
        place = written.get(node.inputs[0]) if isinstance(node.op, Affine) else None
        if place is not None and len(readers[node.inputs[0]]) == 1 and node.inputs[0] not in graph.outputs:
            folded = _folded(nodes[place], node)
            if folded is not None:
                nodes[place] = folded
                written[node.outputs[0]] = place
                continue
        if isinstance(node.op, (Convolution, Deconvolution)):
            written[node.outputs[0]] = len(nodes)
        nodes.append(node)
    return graph.with_nodes(nodes) if len(nodes) < len(graph.nodes) else graph


def _folded(convolution: Node, affine: Node) -> Node | None:
    """The convolution that writes what the Affine writes; None if its weights are unknown or would not be numbers."""
    x, kernel, bias = convolution.inputs
    scale, shift = (value.array for value in affine.inputs[1:])
    if kernel.data is None or not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        return None
    factors = _by_channel(convolution, kernel.data, scale)
    weights = map_elements(np.multiply, kernel.data, factors)
    summands = map_elements(lambda b, factor, summand: b * factor + summand, bias.array, scale, shift)
    read = (x, _holding(kernel, weights), _holding(bias, summands))
    return replace(convolution, inputs=read, outputs=affine.outputs)


def _by_channel(convolution: Node, kernel: Array, scale: Array) -> Array:
    """The factors (O,) in the shape of the kernel: (O, C/group, ...), or (C, O/group, ...) of a Deconvolution."""
    ones = (1,) * (kernel.ndim - 2)
    if not isinstance(convolution.op, Deconvolution):
        return np.broadcast_to(scale.reshape(-1, 1, *ones), kernel.shape)
    group = convolution.op.group
    rows = np.repeat(scale.reshape(group, -1), len(kernel) // group, axis=0)
    return np.broadcast_to(rows.reshape(*kernel.shape[:2], *ones), kernel.shape)


def _holding(value: Value, data: Array) -> Value:
    return replace(value, data=data.astype(np.float32, copy=False))
