"""Pass: move nodes that do not depend on a state out of a Scan's body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Shape, Value, bodies
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import MatMul, Scan, ScanInputs
from prototrt.surgery.passes.all_steps import all_steps_of

SMALL = 1 << 12
"""Elements per step: a result of this size is computed for all steps at once even if that makes it larger."""

Sources: TypeAlias = Mapping[Value, Value]


@needs(Scan)
def hoist_invariants(graph: Graph) -> Graph:
    """Compute before a Scan the nodes of its body that do not depend on a state.

    Before: ``h = Scan[p = MatMul(x_t, w), q = TanH(v), h' = Add(Add(p, q), h)](h0, x, v)``
    After:  ``p = MatMul(x, w)`` for all steps at once, ``q = TanH(v)`` once, and
            ``h = Scan[h' = Add(Add(p_t, q), h)](h0, p, q)``
    Left alone: nodes that depend on a state, values that the body returns, Scans in the body, primitives
    that do not support an additional axis, and broadcasts much larger than their inputs.
    """
    build = Builder(names_in(graph))
    changed = False
    for node in graph.nodes:
        hoisted = _hoisted(build, node, node.op) if isinstance(node.op, Scan) else node
        build.nodes.append(hoisted)
        changed |= hoisted is not node
    return graph.with_nodes(build.nodes) if changed else graph


@dataclass(slots=True)
class _Outside:
    """The values outside that replace values of a body: computed ``once``, or for ``each`` step."""

    once: dict[Value, Value]
    each: dict[Value, Value]
    gone: list[Node] = field(default_factory=list)

    def knows(self, value: Value) -> bool:
        return value.is_constant or value in self.once or value in self.each

    def single(self, value: Value) -> Value:
        return value if value.is_constant else self.once[value]


def _hoisted(build: Builder, node: Node, scan: Scan) -> Node:
    """The Scan over the rest of its body. The moved nodes go to ``build``."""
    inner, outer = scan.named_inputs(scan.body.inputs), scan.named_inputs(node.inputs)
    outside = _Outside(
        once=dict(zip(inner.invariants, outer.invariants, strict=True)),
        each=dict(zip(inner.sequences, outer.sequences, strict=True)),
    )
    for step in scan.body.nodes:
        if not bodies(step.op) and not set(step.outputs) & set(scan.body.outputs):
            _hoist(build, step, outside)
    if not outside.gone:
        return node
    return _over(node, scan, outside)


def _hoist(build: Builder, node: Node, outside: _Outside) -> None:
    """Compute a node before the Scan, if possible."""
    if not all(outside.knows(value) for value in node.inputs):
        return
    build.origin = node.origin
    if not any(value in outside.each for value in node.inputs):
        results = build.add_all(node.op, *map(outside.single, node.inputs), hint=node.hint)
        outside.once.update(zip(node.outputs, results, strict=True))
    else:
        for_all = _for_all_steps(node, outside)
        if for_all is None:
            return
        values = [outside.each.get(value) or outside.single(value) for value in node.inputs]
        is_each = [value in outside.each for value in node.inputs]
        outside.each[node.outputs[0]] = for_all(build, node.op, values, is_each, node.hint)
    outside.gone.append(node)


def _for_all_steps(node: Node, outside: _Outside) -> Callable[..., Value] | None:
    """How to compute the node for all steps at once; None if it must not or cannot be."""
    if not isinstance(node.op, MatMul):
        largest = max(_elements(value.shape) for value in node.inputs if value in outside.each)
        if _elements(node.outputs[0].shape) > max(largest, SMALL):
            return None
    how = all_steps_of(node.op)
    if how is None or not how.suits(node.op, [value in outside.each for value in node.inputs]):
        return None
    return how.apply


def _elements(shape: Shape) -> int:
    """The approximate number of elements: symbols count as 1, because both sides have the same ones."""
    return prod(dim for dim in shape if isinstance(dim, int))


def _over(node: Node, scan: Scan, outside: _Outside) -> Node:
    """The Scan whose body lacks the moved nodes and reads their results."""
    gone = set(outside.gone)
    rest = [inner for inner in scan.body.nodes if inner not in gone]
    read = {value for inner in rest for value in inner.inputs} | set(scan.body.outputs)
    each = _read(outside.each, read)
    if not each:  # a sequence sets the number of steps
        each = dict(list(outside.each.items())[:1])
    once = _read(outside.once, read)
    inner, outer = scan.named_inputs(scan.body.inputs), scan.named_inputs(node.inputs)
    body = replace(
        scan.body.with_nodes(rest), inputs=tuple(ScanInputs(inner.states, tuple(each), tuple(once)))
    )
    inputs = tuple(ScanInputs(outer.states, tuple(each.values()), tuple(once.values())))
    return replace(node, op=replace(scan, body=body, sequences=len(each)), inputs=inputs)


def _read(outside: Sources, read: set[Value]) -> dict[Value, Value]:
    return {inner: outer for inner, outer in outside.items() if inner in read}
