"""The invariants of every graph, before and after each pass."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from prototrt.surgery.ir.dimensions import Range
from prototrt.surgery.ir.graph import Graph, Node, Value, bodies, describe
from prototrt.surgery.ir.shapes import Shape, symbols_of
from prototrt.surgery.ir.types import DType


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
                    raise InvalidGraphError(f"{node.name} reads {value.name} {self._why_unseen(value)}")
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

    def _why_unseen(self, value: Value) -> str:
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
                raise InvalidGraphError(f"{_named(node)}: input {position}, {value}, is not constant")
        elif (value.data.shape, value.data.dtype) != (value.shape, value.dtype.numpy):
            raise InvalidGraphError(
                f"{_named(node)}: the constant {value} holds {value.data.dtype}{[*value.data.shape]}"
            )
    expected = _types_by_rule(node)
    types = [(value.dtype, value.shape) for value in node.outputs]
    if types != expected:
        rule = ", ".join(_text(dtype, shape) for dtype, shape in expected)
        raise InvalidGraphError(
            f"{_named(node)} writes {', '.join(map(str, node.outputs))}, but its rule gives {rule}"
        )
    for fault in node.op.faults(node.inputs):
        raise InvalidGraphError(f"{_named(node)}: {fault}")


def _types_by_rule(node: Node) -> Sequence[tuple[DType, Shape]]:
    try:
        shapes = node.op.shape(*(value.shape for value in node.inputs))
        dtypes = node.op.dtypes(*(value.dtype for value in node.inputs))
        return [(dtype, tuple(shape)) for dtype, shape in zip(dtypes, shapes, strict=True)]
    except Exception as error:  # whatever a rule stumbles over
        read = ", ".join(map(str, node.inputs))
        raise InvalidGraphError(f"{_named(node)} cannot read {read}: {error}") from error


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


def _named(node: Node) -> str:
    return f"{node.name} ({describe(node.op)})"


def _text(dtype: DType, shape: Shape) -> str:
    return f"{dtype.value}[{', '.join(map(str, shape))}]"
