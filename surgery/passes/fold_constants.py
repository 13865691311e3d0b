"""Pass: compute what is known now."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prototrt.surgery.ir import Graph, Node, Value, bodies, element_count, read

LARGEST = 1 << 22
"""Elements of a folded result, at most: a plan must not grow by a Tile of something small."""


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes whose inputs are all constant by what they give.

    Before: ``y = Concat(const a, const b)``, ``z = Add(x, y)``
    After:  ``z = Add(x, const y)``
    Left alone: Scans, results of more than ``LARGEST`` elements, nodes that write a graph output.
    """
    stands_for: dict[Value, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        node = node.reading(stands_for)
        if _is_foldable(node, graph):
            results = node.evaluate(*(read(value, {}) for value in node.inputs))
            for value, data in zip(node.outputs, results, strict=True):
                stands_for[value] = replace(value, data=np.asarray(data))
        else:
            kept.append(node)
    return graph.with_nodes(kept) if stands_for else graph


def _is_foldable(node: Node, graph: Graph) -> bool:
    return (
        all(value.is_constant for value in node.inputs)
        and not bodies(node.op)
        and not node.op.data_dependent
        and not any(value in graph.outputs for value in node.outputs)
        and sum(element_count(value.shape) for value in node.outputs) <= LARGEST
    )
