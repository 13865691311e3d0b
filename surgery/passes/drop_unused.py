"""Pass: remove what no output needs."""

from __future__ import annotations

from dataclasses import replace

from prototrt.surgery.ir import Graph, Node


def drop_unused(graph: Graph) -> Graph:
    """Remove nodes and inputs that no output depends on.

    Before: ``y = Tile(x)``, ``z = TanH(w)``, ``return z``
    After:  ``z = TanH(w)``, ``return z``, and x is no input any more
    Left alone: an input for state, even if the net never looks at it.
    """
    needed = {*graph.outputs, *graph.state_inputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    inputs = tuple(value for value in graph.inputs if value in needed)
    if len(kept) == len(graph.nodes) and inputs == graph.inputs:
        return graph
    return replace(graph.with_nodes(kept[::-1]), inputs=inputs)
