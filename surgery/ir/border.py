"""What a pass declares, and the border of a graph, which every pass keeps.

The border: inputs, outputs, recurrences, and the layers that nodes come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Literal, TypeAlias, TypeVar

from prototrt.caffe_proto.common.errors import Origin
from prototrt.surgery.ir.graph import Graph, Node, Op, Value, bodies, walk
from prototrt.surgery.ir.verification import InvalidGraphError

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
    _refuse("recurrences", _recurrences(before), _recurrences(after))
    _refuse_changed_origins(before, after, declared)


def refuse_changed_bindings(before: Graph, after: Graph, declared: Sequence[BorderChange] = ()) -> None:
    """The part of ``refuse_changed_border`` that is about inputs and outputs; bodies have no more of a border."""
    text = _typed if "shapes" in declared else str
    outputs = [text(value) for value in after.outputs]
    inputs = [text(value) for value in after.inputs]
    old_inputs = [text(value) for value in before.inputs]
    if "fewer inputs" in declared:
        old_inputs = [each for each in old_inputs if each in inputs]
    _refuse("outputs", [text(value) for value in before.outputs], outputs)
    _refuse("inputs", old_inputs, inputs)


def _typed(value: Value) -> str:
    return f"{value.name}: {value.dtype.value}"


def _recurrences(graph: Graph) -> list[str]:
    pairs = graph.recurrences
    return [f"{pair.output.name} -> {pair.input.name}{' (exposed)' * pair.exposed}" for pair in pairs]


def _refuse(role: str, before: Sequence[str], after: Sequence[str]) -> None:
    if before == after:
        return
    missing = [text for text in before if text not in after]
    new = [text for text in after if text not in before]
    parts = [f"{what} {', '.join(texts)}" for what, texts in (("without", missing), ("with", new)) if texts]
    raise InvalidGraphError(f"the {role} change: {'; '.join(parts) or 'their order'}")


def _refuse_changed_origins(before: Graph, after: Graph, declared: Sequence[BorderChange]) -> None:
    """Nodes are immutable: only those that the other graph lacks are compared."""
    gone, added = _without(before.nodes, after.nodes), _without(after.nodes, before.nodes)
    new = _layers(added) - _layers(gone)
    if new and (invented := new - _layers(walk(before))):
        node = next(node for node in added if node.origin in invented)
        raise InvalidGraphError(f"{node.name} comes from {node.origin}, which had no node before")
    if "other writers" not in declared:
        _refuse_other_writers(gone, added)


def _without(nodes: Sequence[Node], others: Sequence[Node]) -> list[Node]:
    """The nodes that are not among the others, and those in their bodies."""
    excluded = set(others)
    changed = [node for node in nodes if node not in excluded]
    return [*changed, *(inner for node in changed for inner in _inside(node))]


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
    return _layers(each for node in writers for each in (node, *_inside(node)))


def _inside(node: Node) -> Iterator[Node]:
    return (inner for body in bodies(node.op) for inner in walk(body))
