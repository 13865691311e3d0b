"""Pass: remove nodes that only copy."""

from __future__ import annotations

from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import Identity


@needs(Identity)
def drop_identities(graph: Graph) -> Graph:
    """Remove nodes that only copy.

    Before: ``y = Identity(x)``, ``z = TanH(y)``
    After:  ``z = TanH(x)``
    Left alone: a copy that writes a graph output, whose name the user knows.
    """
    stands_for: dict[Value, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:  # topological order: a chain of copies collapses in one walk
        node = node.with_replacements(stands_for)
        if isinstance(node.op, Identity) and node.outputs[0] not in graph.outputs:
            stands_for[node.outputs[0]] = node.inputs[0]
        else:
            kept.append(node)
    return graph.with_nodes(kept)
