"""Pass: compute constant outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prototrt.surgery.ir import Array, Graph, Node, Value
from prototrt.surgery.ops import Identity


def fold_constant_outputs(graph: Graph) -> Graph:
    """Replace the nodes that compute an output only from constants by a copy of the result.

    TensorRT for RTX 1.7.1 crashes where a convolution of constants is an output.

    Before: ``y = Convolution(const x)``, ``return y``
    After:  ``y = Identity(const x)``, ``return y``
    Left alone: outputs that depend on an input, copies of constants, and sizes that depend on data.
    """
    computable = _computable_nodes(graph)
    writers = [
        node
        for node in computable
        if not isinstance(node.op, Identity) and any(value in graph.outputs for value in node.outputs)
    ]
    if not writers:
        return graph
    results = [value for node in writers for value in node.outputs]
    alone = replace(graph, inputs=(), nodes=tuple(computable), outputs=tuple(results), recurrences=())
    arrays = dict(zip(results, alone.evaluate(), strict=True))
    nodes = [copy for node in graph.nodes for copy in (_copies(node, arrays) if node in writers else (node,))]
    return graph.with_nodes(nodes)


def _computable_nodes(graph: Graph) -> list[Node]:
    """The nodes that depend on no input and, unlike those without inputs, on no size."""
    made: set[Value] = set()
    computable = []
    for node in graph.nodes:
        reads_constants = bool(node.inputs) and all(
            value.is_constant or value in made for value in node.inputs
        )
        is_fixed = all(isinstance(dim, int) for value in node.outputs for dim in value.shape)
        if reads_constants and is_fixed:
            computable.append(node)
            made.update(node.outputs)
    return computable


def _copies(node: Node, arrays: dict[Value, Array]) -> list[Node]:
    """One for each of the node's outputs."""
    return [
        replace(
            node,
            name=node.name if index == 0 else f"{node.name}:{index}",
            op=Identity(),
            inputs=(replace(value, name=f"__{value.name}_constant", data=np.asarray(arrays[value])),),
            outputs=(value,),
        )
        for index, value in enumerate(node.outputs)
    ]
