"""Pass: keep a first axis of size 1 instead of removing it and adding it again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ops import Axis, Gather, Reshape, Slice
from prototrt.surgery.passes.all_steps import LiftedValues


def keep_unit_axes(graph: Graph) -> Graph:
    """Let surgical nodes read values from before the Reshape that removes a first axis of size 1.

    Before: ``r = Reshape[target=(2, 3)](x)`` with x (1, 2, 3), ``t = TanH(r)``, ``y = Reshape[target=(1, 2, 3)](t)``
    After:  ``t = TanH(x)``, which y is; as an output or a blob of the user, y is a copy
    A Slice, which keeps the axis, replaces a Gather that picks one row.
    Then a step of a recurrence has the shape of its bindings, and no kernel reshapes its states.
    Left alone: the user's layers, primitives that do not support an additional axis, and graphs in which
    as many nodes would still remove or add an axis.
    """
    kept = _NodesWithAxes(graph)
    for node in graph.nodes:
        kept.add(node)
    kept.restore(graph.outputs)
    nodes = kept.build.nodes
    return graph.with_nodes(nodes) if _changes(nodes) < _changes(graph.nodes) else graph


def _changes(nodes: Iterable[Node]) -> int:
    """The number of nodes that only remove or add axes."""
    return sum(
        _constant_row(node) is not None
        or (isinstance(node.op, Reshape) and node.inputs[0].shape != node.outputs[0].shape)
        for node in nodes
    )


def _constant_row(node: Node) -> int | None:
    """The row that a Gather picks from a table of known size, if it picks a single, constant one."""
    if not isinstance(node.op, Gather):
        return None
    table, index = node.inputs
    if table.is_constant or index.data is None or index.shape != () or not isinstance(table.shape[0], int):
        return None
    row = int(index.data)
    return row if 0 <= row < table.shape[0] else None


class _NodesWithAxes:
    """The nodes of a graph with values that keep their axis of size 1, and without it for readers that need that."""

    def __init__(self, graph: Graph) -> None:
        self.build = Builder(names_in(graph))
        self._lifted = LiftedValues()
        self._with_axis = self._lifted.each
        self._unwritten: dict[Value, Node] = {}
        """Values that no node writes any more, and the nodes that would write them."""
        self._stands_for: dict[Value, Value] = {}
        """Values that another value replaces."""
        self._outputs = {*graph.outputs, *graph.state_outputs}

    def add(self, node: Node) -> None:
        """Add a node, over lifted values if it can work on them."""
        node = node.with_replacements(self._stands_for)
        x, y, row = node.inputs[0] if node.inputs else None, node.outputs[0], _constant_row(node)
        self.build.origin = node.origin
        drops_axis = x is not None and isinstance(node.op, Reshape) and x.shape == (1, *y.shape)
        if x is not None and y.is_surgical and (drops_axis or row is not None):
            self.restore([x])
            self._with_axis[y] = x if row is None else self.build.add(Slice(0, row, 1), x, hint=node.hint)
            self._unwritten[y] = node
        elif isinstance(node.op, Reshape) and x in self._with_axis and y.shape == (1, *x.shape):
            if y.is_surgical and y not in self._outputs:
                self._stands_for[y] = self._with_axis[x]
            else:
                copy = _reshape(y, first=0)
                self.build.nodes.append(replace(node, op=copy, inputs=(self._with_axis[x],)))
        elif not self._compute(node):
            self.restore(node.inputs)
            self.build.nodes.append(node)

    def restore(self, values: Iterable[Value]) -> None:
        """Write the values that no node writes any longer."""
        for value in values:
            if (node := self._unwritten.pop(value, None)) is not None:
                self.build.nodes.append(node)

    def _compute(self, node: Node) -> bool:
        """Compute the node with the axis; False if that is not possible."""
        is_each = [value in self._with_axis for value in node.inputs]
        if not any(is_each) or not node.is_surgical or not node.outputs[0].is_surgical:
            return False
        if sum(isinstance(dim, str) for dim in node.outputs[0].shape) > 1:  # TensorRT's Reshape can move one
            return False
        y, values = node.outputs[0], [self._with_axis.get(value, value) for value in node.inputs]
        if not self._lifted.add(self.build, node, values, is_each):
            return False
        self._unwritten[y] = replace(node, op=_reshape(y, first=1), inputs=(self._with_axis[y],))
        return True


def _reshape(value: Value, first: int) -> Reshape:
    """An op that makes a value of one that has its sizes from this axis on."""
    shape = enumerate(value.shape, first)
    return Reshape(tuple(Axis(axis) if isinstance(dim, str) else dim for axis, dim in shape))
