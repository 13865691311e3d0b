"""A graph as a table: one row for each node."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from prototrt.caffe_proto.common.notebook_html import table
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.surgery.ir.graph import Graph, Node, Value, bodies, describe


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A node: its primitive, what it writes, how many numbers are in the constants that no
    node before it reads, and its layer.

    ``line`` is that of the user's file; 0 in a binary one.
    """

    node: str
    primitive: str
    writes: str
    constants: int
    layer: str
    type: str
    line: int


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """The nodes of a graph in their order, below a title."""

    title: str
    rows: tuple[SummaryRow, ...]
    warnings: tuple[str, ...] = ()

    def frame(self) -> Any:
        """The rows as a ``pandas.DataFrame``. Raises ``ImportError`` if pandas is not installed."""
        pandas: Any = importlib.import_module("pandas")
        return pandas.DataFrame([*self.rows], columns=SummaryRow.__slots__)

    def _repr_html_(self) -> str:
        rows = [tuple(asdict(row).values()) for row in self.rows]
        return table(self.title, SummaryRow.__slots__, rows, self.warnings)


def summary(graph: Graph) -> GraphSummary:
    """The rows of a graph. A constant counts once, at its first reader; the bodies of loops count with their node."""
    seen: set[Value] = set()
    rows = []
    for node in graph.nodes:
        fresh = {value for value in _constants(node) if value not in seen}
        seen |= fresh
        rows.append(
            SummaryRow(
                node.name,
                describe(node.op),
                ", ".join(map(str, node.outputs)),
                sum(value.array.size for value in fresh),
                node.origin.layer,
                node.origin.type,
                node.origin.line,
            )
        )
    return GraphSummary(repr(graph), tuple(rows), graph.warnings)


def _constants(node: Node) -> Iterator[Value]:
    yield from (value for value in node.inputs if value.is_constant)
    for body in bodies(node.op):
        for inner in body.nodes:
            yield from _constants(inner)
