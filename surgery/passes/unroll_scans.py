"""Pass: write Scans out, step by step."""

from __future__ import annotations

from prototrt.surgery.ir import Graph
from prototrt.surgery.ir.border import needs
from prototrt.surgery.ops import Scan
from prototrt.surgery.passes.written_out import written_out


@needs(Scan)
def unroll_scans(graph: Graph) -> Graph:
    """Replace each Scan by one copy of its body for each step.

    Before: ``h, y = Scan[body](h0, x)`` with x (T, ...)
    After:  for each t: a Slice and Reshape of x, the nodes of the body; at the end Reshapes
            and a Concat of the outputs. With T = 1 nothing is cut or joined.
            A Scan in the body is also unrolled.
    Left alone: everything else. Raises ``ShapeError`` where T is a symbol.
    """
    scans = [node for node in graph.nodes if isinstance(node.op, Scan)]
    return written_out(graph, scans, with_inner=True)
