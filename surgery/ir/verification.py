"""The rules that a graph must meet, its order among them, and what a pass must keep of it: its border.

The border: inputs, outputs, recurrences, and the layers that nodes come from."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import chain
from typing import Literal, TypeAlias, TypeVar

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.ir.dimensions import Range
from prototrt.surgery.ir.graph import Graph, Node, Op, Value, bodies, describe, walk
from prototrt.surgery.ir.shapes import DType, Shape, symbols_of


class InvalidGraphError(AssertionError):
    """A graph breaks a rule of the IR: a mistake in a layer's rule or in a pass, not the user's."""


def verify(graph: Graph, sound: set[Hashable] | None = None) -> None:
    """Raise ``InvalidGraphError`` if a graph, or a body in it, breaks a rule of the IR.

    Names are unique in the graph, and in each body. Each value has one writer, which comes before its
    readers. A body reads only its own inputs, values and constants. The outputs of a node have the shapes
    and types that its primitive's rule returns. Symbols have a range. Recurrences pair an input with an
    output of the same type.
    Graphs and nodes are immutable: what is checked of a graph in ``sound`` was verified before, and so were the
    types of a node in it. What is verified now is added. Names, writers and scopes of new nodes are always checked.
    """
    verified: set[Hashable] = set() if sound is None else sound
    checked = (graph.inputs, graph.outputs, graph.nodes, graph.recurrences, frozenset(graph.symbols))
    if checked in verified:
        return
    _Scopes(graph.symbols, verified).enter(graph)
    _check_recurrences(graph)
    verified.add(checked)


@dataclass(slots=True)
class _Scopes:
    """The walk through a graph and the bodies in it."""

    symbols: Mapping[str, Range]
    sound: set[Hashable]
    written: set[Value] = field(default_factory=set)

    def enter(self, graph: Graph, place: str = "") -> None:
        """Check the graph, or the body of a node at ``place``. A body cannot read values from outside."""
        seen: dict[str, Value] = {}
        nodes: set[str] = set()
        self._write(graph.inputs, seen, "the inputs")
        for node in graph.nodes:
            for value in node.inputs:
                if seen.get(value.name) is not value and value.data is None:
                    raise InvalidGraphError(f"{node.name} reads {value.name} {self._scope_fault(value)}")
            self._write(node.outputs, seen, node.name)
            if node.name in nodes:
                raise InvalidGraphError(f"two nodes are called {node.name}")
            nodes.add(node.name)
            if node not in self.sound:
                check_types(node)
                self.sound.add(node)
            for body in bodies(node.op):
                self.enter(body, f" of the body of {node.name}")
        for value in (*graph.outputs, *graph.state_outputs):
            if seen.get(value.name) is not value and value.data is None:
                raise InvalidGraphError(f"output {value.name}{place} is never written")

    def _scope_fault(self, value: Value) -> str:
        return "outside its scope" if value in self.written else "before it is written"

    def _write(self, values: Iterable[Value], seen: dict[str, Value], writer: str) -> None:
        for value in values:
            if value.data is not None:
                raise InvalidGraphError(f"{writer}: the constant {value.name} is written")
            if value in self.written:
                raise InvalidGraphError(f"{value.name} has two writers")
            if value.name in seen:
                raise InvalidGraphError(f"two values are called {value.name}")
            open_sizes = [dim for dim in value.shape if not isinstance(dim, int)]
            for symbol in chain.from_iterable(map(symbols_of, open_sizes)):
                if symbol not in self.symbols:
                    raise InvalidGraphError(f"{value} has the symbol {symbol}, whose range is unknown")
            self.written.add(value)
            seen[value.name] = value


def check_types(node: Node) -> None:
    """Check a node against the rules of its primitive; raises ``InvalidGraphError``."""
    for position, value in enumerate(node.inputs):
        if value.data is None:
            if position in node.op.constants:
                raise InvalidGraphError(f"{_node_text(node)}: input {position}, {value}, is not constant")
        elif (value.data.shape, value.data.dtype) != (value.shape, value.dtype.numpy):
            raise InvalidGraphError(
                f"{_node_text(node)}: the constant {value} holds {value.data.dtype}{[*value.data.shape]}"
            )
    expected = _types_by_rule(node)
    types = [(value.dtype, value.shape) for value in node.outputs]
    if types != expected:
        rule = ", ".join(_text(dtype, shape) for dtype, shape in expected)
        raise InvalidGraphError(
            f"{_node_text(node)} writes {', '.join(map(str, node.outputs))}, but its rule gives {rule}"
        )
    for fault in node.op.faults(node.inputs):
        raise InvalidGraphError(f"{_node_text(node)}: {fault}")


def _types_by_rule(node: Node) -> Sequence[tuple[DType, Shape]]:
    try:
        shapes = node.op.shape(*(value.shape for value in node.inputs))
        dtypes = node.op.dtypes(*(value.dtype for value in node.inputs))
        return [(dtype, tuple(shape)) for dtype, shape in zip(dtypes, shapes, strict=True)]
    except Exception as error:  # whatever a rule stumbles over
        read = ", ".join(map(str, node.inputs))
        raise InvalidGraphError(f"{_node_text(node)} cannot read {read}: {error}") from error


def _check_recurrences(graph: Graph) -> None:
    inputs, outputs = set(graph.inputs), set(graph.outputs)
    for pair in graph.recurrences:
        before, after = pair.input, pair.output
        if before not in inputs:
            raise InvalidGraphError(f"state {before.name} is not an input of the graph")
        if after not in outputs:
            raise InvalidGraphError(f"state {after.name} is not an output of the graph")
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            raise InvalidGraphError(f"state {after} is fed back into {before}, which has another type")
    states = [pair.output for pair in graph.recurrences if not pair.exposed]
    if states and list(graph.outputs[-len(states) :]) != states:
        raise InvalidGraphError("the outputs of the graph do not end with its states")


def _node_text(node: Node) -> str:
    return f"{node.name} ({describe(node.op)})"


def _text(dtype: DType, shape: Shape) -> str:
    return f"{dtype.value}[{', '.join(map(str, shape))}]"


BorderChange: TypeAlias = Literal["fewer inputs", "other writers", "shapes"]
"""What a pass may declare: it drops inputs, lets another layer write a value, or reshapes inputs and outputs."""

_Pass = TypeVar("_Pass", bound=Callable[[Graph], Graph])


def changes(*declared: BorderChange) -> Callable[[_Pass], _Pass]:
    """Declare what a pass changes at the border of a graph. All else must stay."""

    def declare(change: _Pass) -> _Pass:
        change.__dict__["border_changes"] = declared  # functools.wraps copies it
        return change

    return declare


def needs(*ops: type[Op]) -> Callable[[_Pass], _Pass]:
    """Declare the primitives without which a pass has nothing to do. One that is named twice is needed twice.

    The pass does not run on a graph, or a body, that lacks one of them.
    """
    needed = Counter(ops)

    def declare(change: _Pass) -> _Pass:
        @wraps(change)
        def where_needed(graph: Graph) -> Graph:
            return change(graph) if needed <= Counter(type(node.op) for node in graph.nodes) else graph

        return where_needed  # type: ignore[return-value]  # it is called like the pass

    return declare


def declared_changes(change: Callable[[Graph], Graph]) -> Sequence[BorderChange]:
    """What a pass declares to change."""
    declared: Sequence[BorderChange] = change.__dict__.get("border_changes", ())
    return declared


def refuse_changed_border(before: Graph, after: Graph, declared: Sequence[BorderChange] = ()) -> None:
    """Raise ``InvalidGraphError`` if a graph differs at its border from the graph before in what is not declared.

    Inputs and outputs keep their order, names, types and shapes. Recurrences pair the same names. Origins have two
    rules: a new node comes from a layer that had nodes before; and a value is written by the layer that wrote it
    before, or by one in the body of the node that wrote it. So a layer can vanish only with all its values.
    """
    refuse_changed_bindings(before, after, declared)
    _refuse_changed_origins(before, after, declared)


def refuse_changed_bindings(before: Graph, after: Graph, declared: Sequence[BorderChange] = ()) -> None:
    """The part of ``refuse_changed_border`` that is not about layers; bodies have no more of a border."""
    old, new = (_bindings(graph, has_shapes="shapes" not in declared) for graph in (before, after))
    if "fewer inputs" in declared:
        old["inputs"] = [text for text in old["inputs"] if text in new["inputs"]]
    for role in old:
        if old[role] != new[role]:
            missing = [text for text in old[role] if text not in new[role]]
            added = [text for text in new[role] if text not in old[role]]
            parts = [
                f"{word} {', '.join(texts)}"
                for word, texts in (("without", missing), ("with", added))
                if texts
            ]
            raise InvalidGraphError(f"the {role} change: {'; '.join(parts) or 'their order'}")


def _bindings(graph: Graph, has_shapes: bool) -> dict[str, list[str]]:
    """What a caller sees of a graph, by role, in words."""
    outputs, inputs = (
        [str(value) if has_shapes else f"{value.name}: {value.dtype.value}" for value in values]
        for values in (graph.outputs, graph.inputs)
    )
    pairs = graph.recurrences
    fed = [f"{pair.output.name} -> {pair.input.name}{' (exposed)' * pair.exposed}" for pair in pairs]
    return {"outputs": outputs, "inputs": inputs, "recurrences": fed}


def _refuse_changed_origins(before: Graph, after: Graph, declared: Sequence[BorderChange]) -> None:
    """Nodes are immutable: only those that the other graph lacks are compared."""
    gone, added = _nodes_without(before.nodes, after.nodes), _nodes_without(after.nodes, before.nodes)
    new = _layers(added) - _layers(gone)
    if new and (invented := new - _layers(walk(before))):
        node = next(node for node in added if node.origin in invented)
        raise InvalidGraphError(f"{node.name} comes from {node.origin}, which had no node before")
    if "other writers" not in declared:
        _refuse_other_writers(gone, added)


def _nodes_without(nodes: Sequence[Node], others: Sequence[Node]) -> list[Node]:
    """The nodes that are not among the others, and those in their bodies."""
    excluded = set(others)
    changed = [node for node in nodes if node not in excluded]
    return [*changed, *(inner for node in changed for inner in _inner_nodes(node))]


def _layers(nodes: Iterable[Node]) -> set[Origin]:
    # Most nodes of a layer share one object: comparing identities first is faster.
    return set({id(node.origin): node.origin for node in nodes}.values())


def _refuse_other_writers(gone: Sequence[Node], added: Sequence[Node]) -> None:
    writers = {value.name: node for node in gone for value in node.outputs}
    for node in added:
        for value in node.outputs:
            old = writers.get(value.name, node)
            if old.origin is not node.origin and node.origin not in _writing_layers(value.name, gone):
                raise InvalidGraphError(f"{node.origin} writes {value.name}, before {old.origin}")


def _writing_layers(name: str, nodes: Sequence[Node]) -> set[Origin]:
    """The layers of the nodes that write a value of this name, one in each scope, and of the nodes in their bodies."""
    writers = [node for node in nodes if any(value.name == name for value in node.outputs)]
    return _layers(each for node in writers for each in (node, *_inner_nodes(node)))


def _inner_nodes(node: Node) -> Iterator[Node]:
    return (inner for body in bodies(node.op) for inner in walk(body))


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in topological order, otherwise in their old order."""
    place = {value: at for at, node in enumerate(nodes) for value in node.outputs}
    missing = [len({place[value] for value in node.inputs if value in place}) for node in nodes]
    readers: list[set[int]] = [set() for _ in nodes]
    for at, node in enumerate(nodes):
        for value in node.inputs:
            if value in place:
                readers[place[value]].add(at)
    ready = [at for at, count in enumerate(missing) if not count]
    ordered: list[Node] = []
    while ready:
        at = heapq.heappop(ready)
        ordered.append(nodes[at])
        for reader in readers[at]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    assert len(ordered) == len(nodes), "nodes that wait for each other"
    return ordered
