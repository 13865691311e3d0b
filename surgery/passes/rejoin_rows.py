"""Pass: read rows from their source instead of copying them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from prototrt.surgery.ir import Graph, Node, Op, Value
from prototrt.surgery.ir.verification import changes
from prototrt.surgery.ops import Concat, Gather, Identity, Reshape, Slice


class _RowRange(NamedTuple):
    """Rows of a value (rows, ...), from ``start`` to before ``end``."""

    value: Value
    start: int
    end: int


@changes("other writers")
def rejoin_rows(graph: Graph) -> Graph:
    """Replace a concatenation of the rows of a value by the value, or by a slice of it.

    Before: ``a = Gather(x, 0)``, ``b = Gather(x, 1)``, ``y = Concat[axis=0](Reshape(a), Reshape(b))``
    After:  ``y = x``, if that has two rows, else ``y = Slice[axis=0, start=0, size=2](x)``
    Slices of axis 0 may also cut the rows, and the rows may be reshaped. If the rows are all the rows of
    several values, a Concat of these values replaces them.
    Left alone: rows in another order, and rows of different shapes.
    """
    rows = dict[Value, Sequence[_RowRange]]()
    fixed = {*graph.inputs, *graph.outputs}
    nodes, stands_for = list[Node](), dict[Value, Value]()
    for node in graph.nodes:
        y = node.outputs[0]
        rows[y] = _rows_of_result(node, rows)
        values = tuple(run.value for run in rows[y])
        op = _over_sources(node, rows[y])
        if not isinstance(op, Identity):
            nodes.append(node if op is None else replace(node, op=op, inputs=values))
        elif y not in fixed:
            stands_for[y] = values[0]
        elif values[0] in fixed or values[0].is_constant:  # the user knows both names
            nodes.append(node)
        else:
            fixed.add(values[0])
            stands_for[values[0]] = y
    return graph if tuple(nodes) == graph.nodes else _rename(graph, nodes, stands_for)


def _rows_of_result(node: Node, rows: Mapping[Value, Sequence[_RowRange]]) -> Sequence[_RowRange]:
    """The rows that a node's result consists of, in order, whatever its shape; none if they are its own."""
    op, read = node.op, node.inputs
    if isinstance(op, Slice) and op.axis == 0 and isinstance(op.start, int) and isinstance(op.size, int):
        return _cut(read[0], op.start, op.start + op.size, rows)
    if isinstance(op, Gather) and read[1].data is not None and not read[1].shape:
        return _cut(read[0], int(read[1].data), int(read[1].data) + 1, rows)
    if not isinstance(op, Reshape) and not (isinstance(op, Concat) and op.axis == 0):
        return ()
    runs = [_rows_of(value, rows) for value in read]
    is_uniform = len({run.value.shape[1:] for each in runs for run in each}) == 1
    return _merge(run for each in runs for run in each) if all(runs) and is_uniform else ()


def _rows_of(value: Value, rows: Mapping[Value, Sequence[_RowRange]]) -> Sequence[_RowRange]:
    count = value.shape[0] if value.shape else None
    return rows.get(value) or ([_RowRange(value, 0, count)] if isinstance(count, int) else ())


def _cut(
    value: Value, start: int, end: int, rows: Mapping[Value, Sequence[_RowRange]]
) -> Sequence[_RowRange]:
    """Some rows of a value, as rows of what it consists of; if that does not account for all rows, as its own."""
    runs = _rows_of(value, rows)
    if sum(run.end - run.start for run in runs) != value.shape[0]:
        return [_RowRange(value, start, end)]
    ranges, first = [], 0
    for run in runs:
        low, high = max(start - first, 0), min(end - first, run.end - run.start)
        if low < high:
            ranges.append(_RowRange(run.value, run.start + low, run.start + high))
        first += run.end - run.start
    return ranges


def _merge(runs: Iterable[_RowRange]) -> Sequence[_RowRange]:
    """Merge runs that continue the previous run."""
    merged: list[_RowRange] = []
    for run in runs:
        if merged and merged[-1].value is run.value and merged[-1].end == run.start:
            merged[-1] = merged[-1]._replace(end=run.end)
        else:
            merged.append(run)
    return merged


def _over_sources(node: Node, runs: Sequence[_RowRange]) -> Op | None:
    """What makes the result of a Concat or a Reshape of the values that its rows are from; None for other nodes."""
    y, count = node.outputs[0], sum(run.end - run.start for run in runs)
    if not isinstance(node.op, (Concat, Reshape)) or not runs or y.shape != (count, *runs[0].value.shape[1:]):
        return None
    are_whole = all((run.start, run.end) == (0, run.value.shape[0]) for run in runs)
    if len(runs) == 1:
        return Identity() if are_whole else Slice(0, runs[0].start, count)
    return Concat(0) if are_whole and node.inputs != tuple(run.value for run in runs) else None


def _rename(graph: Graph, nodes: Iterable[Node], stands_for: Mapping[Value, Value]) -> Graph:
    """The graph of these nodes; a value has the name of the graph's output that it is."""
    final = {old: stands_for.get(new, new) for old, new in stands_for.items()}
    return graph.with_nodes(
        (
            replace(
                node.with_replacements(final),
                outputs=tuple(stands_for.get(value, value) for value in node.outputs),
            )
            for node in nodes
        ),
        final,
    )
