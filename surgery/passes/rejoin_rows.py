"""Pass: read rows from their source instead of copying them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from prototrt.surgery.ir import Graph, Node, Op, Value
from prototrt.surgery.ir.verification import changes
from prototrt.surgery.ops import Concat, Gather, Identity, Reshape, Slice


@dataclass(frozen=True, slots=True)
class _RowRange:
    """Rows of a value (rows, ...), from ``start`` to before ``end``."""

    value: Value
    start: int
    end: int

    @property
    def is_all(self) -> bool:
        return (self.start, self.end) == (0, self.value.shape[0])


@changes("other writers")
def rejoin_rows(graph: Graph) -> Graph:
    """Replace a concatenation of the rows of a value by the value, or by a slice of it.

    Before: ``a = Gather(x, 0)``, ``b = Gather(x, 1)``, ``y = Concat[axis=0](Reshape(a), Reshape(b))``
    After:  ``y = x``, if that has two rows, else ``y = Slice[axis=0, start=0, size=2](x)``
    Slices of axis 0 may also cut the rows, and the rows may be reshaped. If the rows are all the rows of
    several values, a Concat of these values replaces them.
    Left alone: rows in another order, and rows of different shapes.
    """
    rows = _RowSources()
    joined = _Joined(graph)
    for node in graph.nodes:
        rows.note(node)
        joined.add(node, rows.of(node.outputs[0]) if isinstance(node.op, (Concat, Reshape)) else ())
    return joined.graph()


class _RowSources:
    """The rows that a value consists of, in order, whatever its shape."""

    def __init__(self) -> None:
        self._ranges: dict[Value, Sequence[_RowRange]] = {}

    def of(self, value: Value) -> Sequence[_RowRange]:
        return self._ranges.get(value) or self._own(value)

    def note(self, node: Node) -> None:
        """Record the rows that a node's result consists of."""
        op, read = node.op, node.inputs
        if isinstance(op, Slice) and op.axis == 0 and isinstance(op.start, int) and isinstance(op.size, int):
            self._ranges[node.outputs[0]] = self._cut(read[0], op.start, op.start + op.size)
        elif isinstance(op, Gather) and read[1].data is not None and not read[1].shape:
            row = int(read[1].data)
            self._ranges[node.outputs[0]] = self._cut(read[0], row, row + 1)
        elif isinstance(op, Reshape) or (isinstance(op, Concat) and op.axis == 0):
            runs = [run for value in read for run in self.of(value)]
            if all(self.of(value) for value in read) and len({run.value.shape[1:] for run in runs}) == 1:
                self._ranges[node.outputs[0]] = _merged(runs)

    @staticmethod
    def _own(value: Value) -> Sequence[_RowRange]:
        rows = value.shape[0] if value.shape else None
        return [_RowRange(value, 0, rows)] if isinstance(rows, int) else []

    def _cut(self, value: Value, start: int, end: int) -> Sequence[_RowRange]:
        """Some rows of a value, as rows of what it consists of; if that does not account for all rows, as its own."""
        runs = self.of(value)
        if sum(run.end - run.start for run in runs) != value.shape[0]:
            return [_RowRange(value, start, end)]
        ranges, first = [], 0
        for run in runs:
            low, high = max(start - first, 0), min(end - first, run.end - run.start)
            if low < high:
                ranges.append(_RowRange(run.value, run.start + low, run.start + high))
            first += run.end - run.start
        return ranges


def _merged(runs: Iterable[_RowRange]) -> Sequence[_RowRange]:
    """Merge runs that continue the previous run."""
    merged: list[_RowRange] = []
    for run in runs:
        if merged and merged[-1].value is run.value and merged[-1].end == run.start:
            merged[-1] = replace(merged[-1], end=run.end)
        else:
            merged.append(run)
    return merged


class _Joined:
    """Rebuilds the graph with the sources of rows."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._fixed = {*graph.inputs, *graph.outputs}
        self._nodes: list[Node] = []
        self._stands_for: dict[Value, Value] = {}
        self._is_changed = False

    def add(self, node: Node, runs: Sequence[_RowRange]) -> None:
        """Add a node, or its replacement if it concatenates the rows of values."""
        y, values = node.outputs[0], tuple(run.value for run in runs)
        rows = sum(run.end - run.start for run in runs)
        op: Op | None = None
        if runs and values[0] is not y and y.shape == (rows, *values[0].shape[1:]):
            if len(runs) == 1:
                op = Identity() if runs[0].is_all else Slice(0, runs[0].start, rows)
            elif all(run.is_all for run in runs) and node.inputs != values:
                op = Concat(0)
        if isinstance(op, Identity) and self._is_copy(values[0], y):
            self._is_changed = True
        elif op is not None and not isinstance(op, Identity):
            self._nodes.append(replace(node, op=op, inputs=values))
            self._is_changed = True
        else:
            self._nodes.append(node)

    def _is_copy(self, x: Value, y: Value) -> bool:
        """Replace one value by the other; False if the user knows both names."""
        if y not in self._fixed:
            self._stands_for[y] = x
            return True
        if x in self._fixed or x.is_constant:
            return False
        self._fixed.add(x)
        self._stands_for[x] = y
        return True

    def graph(self) -> Graph:
        """The new graph, or the old one if nothing changed."""
        if not self._is_changed:
            return self._old
        final = {old: self._stands_for.get(new, new) for old, new in self._stands_for.items()}
        names = self._stands_for  # a value has the name of the graph's output that it is
        nodes = [
            replace(node.reading(final), outputs=tuple(names.get(value, value) for value in node.outputs))
            for node in self._nodes
        ]
        return self._old.with_nodes(nodes, final)
