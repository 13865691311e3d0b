"""Pass: compute on values as they lie before a Transpose or Reshape, until moves meet their inverse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from prototrt.caffe_proto.common.errors import Origin
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Op, Value, fixed
from prototrt.surgery.ir.verification import changes
from prototrt.surgery.ops import Gather, MatMul
from prototrt.surgery.ops.elementwise import Elementwise
from prototrt.surgery.ops.quantize import ScaledOp
from prototrt.surgery.ops.shape import AlongAxis
from prototrt.surgery.passes.moved_values import Axes, Move, before_moves, reshape_to, together


@changes("other writers")
def sink_moves(graph: Graph) -> Graph:
    """Let primitives read values from before a Transpose, or from before a Reshape that adds or removes axes of size 1.

    Before: ``r = Reshape[target=(1, 2, 3)](x)`` with x (2, 3), ``t = TanH(r)``, ``y = Reshape[target=(2, 3)](t)``
    After:  ``y = TanH(x)``
    A move that meets its inverse is gone; the others are made where something needs their result.
    Left alone: moves whose results are read by primitives that care for the order of axes, such as Convolution and
    Scan, or have several outputs, such as TopK, and Transposes before products that make their rows longer.
    """
    sunk = _SunkNodes(graph)
    for node in graph.nodes:
        sunk.add(node)
    return sunk.graph()


class _SunkNodes:
    """The nodes of a graph, on values before their moves."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._build = Builder(names_in(graph))
        self._moves: dict[Value, Move] = {}
        """Values that no node writes yet."""
        self._writers: dict[Value, Node] = {}
        """The nodes that wrote them."""
        self._stands_for: dict[Value, Value] = {}
        self._is_changed = False

    def add(self, node: Node) -> None:
        """Add a node on values before their moves; or record it, if it is a move itself."""
        node = node.with_replacements(self._stands_for)
        self._build.origin = node.origin
        is_computed = bool(node.inputs) and not node.inputs[0].is_constant
        move = self._move(node.inputs[0]).then(node.op) if is_computed else None
        if move is not None:
            self._record(node, move)
        elif not self._compute(node):
            self._restore(node.inputs)
            self._build.nodes.append(node.with_replacements(self._stands_for))

    def _move(self, value: Value) -> Move:
        """Where the elements of a value are."""
        return self._moves.get(value) or Move.of(value)

    def _record(self, node: Node, move: Move) -> None:
        """Record the move that makes the output of a node."""
        (value,) = node.outputs
        self._moves[value], self._writers[value] = move, node

    def _compute(self, node: Node) -> bool:
        """Compute a node on values before their moves; False if that is not possible."""
        rule = next((_RULES[kind] for kind in type(node.op).__mro__ if kind in _RULES), None)
        is_moved = any(value in self._moves for value in node.inputs)
        if rule is None or not is_moved or len(node.outputs) > 1:  # each output would need a move
            return False
        made = rule(
            node.op, node.inputs, [None if value.is_constant else self._move(value) for value in node.inputs]
        )
        if made is None:
            return False
        op, inputs, axes = made
        (shape,) = op.shape(*(value.shape for value in inputs))
        source = replace(node.outputs[0], name=self._build.fresh(node.hint), shape=shape, is_surgical=True)
        self._build.nodes.append(replace(node, op=op, inputs=tuple(inputs), outputs=(source,)))
        self._record(node, Move.of(source, axes))
        self._is_changed = True
        return True

    def _restore(self, values: Iterable[Value]) -> None:
        """Make the values that no node writes any longer."""
        for value in values:
            if value not in self._moves:
                continue
            move, node = self._moves.pop(value), self._writers.pop(value)
            ops = move.ops()
            if [move.source] == [*node.inputs] and ops == [node.op]:
                self._build.nodes.append(node)
                continue
            self._is_changed = True
            if ops or value in self._old.outputs:
                self._write(value, move.source, ops or [reshape_to(value.shape, value.shape)], node.origin)
            else:
                self._stands_for[value] = move.source

    def _write(self, value: Value, source: Value, ops: Sequence[Op], origin: Origin) -> None:
        """Add the moves that make a value of its source."""
        self._build.origin = origin
        for op in ops[:-1]:
            source = self._build.add(op, source, hint="moved")
        name = self._build.fresh("moved")
        self._build.nodes.append(Node(name, ops[-1], (source,), (value,), origin, is_surgical=True))

    def graph(self) -> Graph:
        """The graph with its outputs."""
        outputs = self._direct_outputs()
        self._restore(self._old.outputs)
        if not self._is_changed:
            return self._old
        nodes = [
            replace(
                node.with_replacements(outputs),
                outputs=tuple(outputs.get(value, value) for value in node.outputs),
            )
            for node in self._build.nodes
        ]
        return self._old.with_nodes(nodes)

    def _direct_outputs(self) -> dict[Value, Value]:
        """Outputs that are their source, unmoved: by the value that only surgery knows, and that they replace."""
        direct: dict[Value, Value] = {}
        # TensorRT copies a value to two outputs without a kernel, but not one output to another.
        shared = Counter(self._move(value).source for value in self._old.outputs)
        for value in self._old.outputs:
            move = self._moves.get(value)
            if move and not move.ops() and move.source.is_surgical and shared[move.source] == 1:
                direct[move.source] = value
                del self._moves[value]
                self._is_changed = True
        return direct


Made: TypeAlias = tuple[Op, Sequence[Value], Sequence[int | None]]
"""A primitive on values before their moves, and the axes of its result."""
Rule: TypeAlias = Callable[[Any, Sequence[Value], Sequence[Move | None]], Made | None]
"""``rule(op, values, moves)``: a move for each value that is not constant. None if the values must be restored."""


def _elementwise(op: Op, values: Sequence[Value], moves: Sequence[Move | None]) -> Made | None:
    """Elements at equal places; sizes 1 broadcast."""
    moved = [move for move in moves if move is not None]
    axes = together(moved)
    if axes is None:
        return None
    rank = len(moved[0].source.shape)
    inputs = [
        _constant(value, axes, rank) if move is None else move.source
        for value, move in zip(values, moves, strict=True)
    ]
    operands = [value for value in inputs if value is not None]
    return (op, operands, axes) if len(operands) == len(inputs) else None


def _constant(value: Value, axes: Axes, rank: int) -> Value | None:
    """A constant that broadcasts against values with these axes, as it meets their sources."""
    if len(value.shape) != len(axes):
        return None
    data = before_moves(value.array, axes, rank)
    return None if data is None else replace(value, shape=data.shape, data=data)


def _along_axis(op: Any, values: Sequence[Value], moves: Sequence[Move | None]) -> Made | None:
    """Primitives that change one axis of one value or of several, which have the other axes in common."""
    moved = [move for move in moves if move is not None]
    axes = together(moved)
    if axes is None or len(moved) < len(values) or axes[op.axis] is None:
        return None
    return replace(op, axis=axes[op.axis]), [move.source for move in moved], axes


def _with_one_scale(op: Any, values: Sequence[Value], moves: Sequence[Move | None]) -> Made | None:
    """One scale for all elements."""
    move = moves[0]
    return (op, [move.source, values[1]], move.axes) if move is not None and op.axis is None else None


def _rows_times_matrix(op: MatMul, values: Sequence[Value], moves: Sequence[Move | None]) -> Made | None:
    """A product with one constant matrix for all rows, whose order then does not matter."""
    (move, _), matrix = moves, values[1]
    if move is None or matrix.data is None or any(dim != 1 for dim in matrix.shape[:-2]):
        return None
    rank = len(move.source.shape)
    inner, columns = matrix.shape[-2:] if not op.transpose_b else matrix.shape[:-3:-1]
    is_longer = not move.keeps_order and fixed(columns, "a matrix") > fixed(inner, "a matrix")
    if rank < 2 or move.axes[-1] != rank - 1 or is_longer:
        return None
    data = matrix.data.reshape((1,) * (rank - 2) + matrix.data.shape[-2:])
    return op, [move.source, replace(matrix, shape=data.shape, data=data)], move.axes


def _rows_of_table(op: Gather, values: Sequence[Value], moves: Sequence[Move | None]) -> Made | None:
    """Rows of a constant table."""
    (table, _), (table_move, index) = values, moves
    if table_move is not None or index is None or not index.keeps_order:  # rows are longer than indices
        return None
    rank = len(index.source.shape)
    return op, [table, index.source], [*index.axes, *range(rank, rank + len(table.shape) - 1)]


_RULES: Mapping[type, Rule] = {
    AlongAxis: _along_axis,
    Elementwise: _elementwise,
    Gather: _rows_of_table,
    MatMul: _rows_times_matrix,
    ScaledOp: _with_one_scale,
}
"""How operands are moved. Other primitives read values as they are after their moves."""
