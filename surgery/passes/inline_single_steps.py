"""Pass: replace a Scan of one step by its body."""

from __future__ import annotations

from prototrt.surgery.ir import Graph, Node
from prototrt.surgery.ir.border import needs
from prototrt.surgery.ops import Scan
from prototrt.surgery.passes.written_out import written_out


@needs(Scan)
def inline_single_steps(graph: Graph) -> Graph:
    """Replace each Scan of one step by its body.

    Before: ``h, y = Scan[h' = TanH(Add(x_t, h))](h0, x)`` with x (1, ...)
    After:  ``h = TanH(Add(Reshape(x), h0))``, ``y = Reshape(h)``
    Left alone: Scans of several steps, and Scans in their bodies.
    """
    return written_out(graph, [node for node in graph.nodes if _runs_once(node)], with_inner=False)


def _runs_once(node: Node) -> bool:
    return isinstance(node.op, Scan) and node.op.steps([value.shape for value in node.inputs]) == 1
