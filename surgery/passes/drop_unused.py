"""Pass: remove nodes and inputs that no output needs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress

from prototrt.surgery.ir import Graph, Node, Value, symbols_in, walk
from prototrt.surgery.ir.shapes import symbol_sources
from prototrt.surgery.ir.verification import changes
from prototrt.surgery.ops import Scan


@changes("fewer inputs")
def drop_unused(graph: Graph) -> Graph:
    """Remove nodes and inputs that no output depends on.

    Before: ``y = Tile(x)``, ``z = TanH(w)``, ``return z``
    After: ``z = TanH(w)``, ``return z``, and x is no longer an input
    A Scan loses unread sequences, states that nothing in or after its body depends on, and everything
    that its body reads only for them.
    Left alone: an input for state, even if the net never looks at it, and one that alone states a needed size.
    """
    needed = {*graph.outputs, *graph.state_inputs}
    kept = _needed_nodes(graph.nodes, needed)
    if graph.symbols:
        needed.update(_size_sources(graph, kept, needed))
    inputs = tuple(value for value in graph.inputs if value in needed)
    if tuple(kept) == graph.nodes and inputs == graph.inputs:
        return graph
    return replace(graph.with_nodes(kept), inputs=inputs)


def _size_sources(graph: Graph, kept: Sequence[Node], needed: Container[Value]) -> Iterator[Value]:
    """Inputs that alone state a size which the kept nodes use."""
    used = {symbol for node in walk(graph.with_nodes(kept)) for symbol in symbols_in(node.op)}
    sources = symbol_sources(value for value in graph.inputs if value in needed)
    for symbol, source in symbol_sources(graph.inputs).items():
        if symbol in used and symbol not in sources:
            yield source.input


def _needed_nodes(nodes: Sequence[Node], needed: set[Value]) -> list[Node]:
    """The nodes, or parts of them, that compute the ``needed`` values. Adds the values that they read to ``needed``."""
    kept: list[Node] = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            part = _needed_part(node, node.op, needed) if isinstance(node.op, Scan) else node
            needed.update(part.inputs)
            kept.append(part)
    return kept[::-1]


def _needed_body(
    scan: Scan, states: list[bool], stacked: list[bool]
) -> tuple[set[Value], list[Node], list[bool]]:
    """The values and nodes of the body that these states and sequences need, and which states those are then."""
    before, after = scan.named_inputs(scan.body.inputs), scan.named_outputs(scan.body.outputs)
    while True:  # a state that a needed one is computed from is also needed
        inner = {*compress(after, (*states, *stacked))}
        nodes = _needed_nodes(scan.body.nodes, inner)
        grown = [is_state or value in inner for is_state, value in zip(states, before.states, strict=True)]
        if grown == states:
            return inner, nodes, states
        states = grown


def _needed_part(node: Node, scan: Scan, needed: set[Value]) -> Node:
    """The Scan without its unneeded parts; the same node if all parts are needed."""
    read, written = scan.named_inputs(node.inputs), scan.named_outputs(node.outputs)
    before, after = scan.named_inputs(scan.body.inputs), scan.named_outputs(scan.body.outputs)
    stacked = [value in needed for value in written.stacked]
    states = [value in needed for value in written.states]
    inner, nodes, states = _needed_body(scan, states, stacked)
    sequences = [value in inner for value in before.sequences]
    if not any(sequences):  # a sequence sets the number of steps
        sequences[0] = True
    invariants = [value in inner for value in before.invariants]
    if all((*states, *sequences, *invariants, *stacked)) and tuple(nodes) == scan.body.nodes:
        return node

    def inputs(of: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(compress(of, (*states, *sequences, *invariants)))

    def outputs(of: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(compress(of, (*states, *stacked)))

    body = replace(scan.body, inputs=inputs(before), outputs=outputs(after), nodes=tuple(nodes))
    op = replace(scan, body=body, states=sum(states), sequences=sum(sequences))
    return replace(node, op=op, inputs=inputs(read), outputs=outputs(written))
