"""Pass: merge consecutive reshapes."""

from __future__ import annotations

from dataclasses import replace

from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import Axis, Reshape


@needs(Reshape, Reshape)
def merge_reshapes(graph: Graph) -> Graph:
    """Apply the second of two consecutive Reshapes to the input of the first.

    Before: ``y = Reshape[target=(3, 2, 1)](x)``, ``z = Reshape[target=(3, 1, 2, 1)](y)``
    After:  ``z = Reshape[target=(3, 1, 2, 1)](x)``; y stays for its other readers
    Left alone: a Reshape of any other node, and two that each move an unknown size: TensorRT computes sizes where more
    than one moves.
    """
    writers: dict[Value, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.op, Reshape):
            before = writers.get(node.inputs[0])
            node = node if before is None else _merge(node, before)
            writers[node.outputs[0]] = node
        nodes.append(node)
    return graph.with_nodes(nodes)


def _merge(node: Node, before: Node) -> Node:
    """The Reshape applied to the input of the one before it, which also takes sizes from there."""
    assert isinstance(node.op, Reshape)
    assert isinstance(before.op, Reshape)
    sizes = before.op.target
    target = tuple(sizes[dim.index] if isinstance(dim, Axis) else dim for dim in node.op.target)
    unknown = [place for place, dim in enumerate(target) if not isinstance(dim, int) and dim != Axis(place)]
    return node if len(unknown) > 1 else replace(node, op=Reshape(target), inputs=before.inputs)
