"""Pass: move nodes that do not depend on a state out of a Scan's body."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Shape, Value, bodies
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import MatMul, Scan, ScanInputs
from prototrt.surgery.passes.all_steps import LiftedValues

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
    for node in graph.nodes:
        build.nodes.append(_hoist(build, node, node.op) if isinstance(node.op, Scan) else node)
    return graph.with_nodes(build.nodes)


def _hoist(build: Builder, node: Node, scan: Scan) -> Node:
    """The Scan over the rest of its body. The moved nodes go to ``build``."""
    inner, outer = scan.named_inputs(scan.body.inputs), scan.named_inputs(node.inputs)
    outside = LiftedValues(
        each=dict(zip(inner.sequences, outer.sequences, strict=True)),
        once=dict(zip(inner.invariants, outer.invariants, strict=True)),
    )
    gone = {step for step in scan.body.nodes if _try_hoist(build, step, scan, outside)}
    return _scan_without(node, scan, outside, gone) if gone else node


def _try_hoist(build: Builder, node: Node, scan: Scan, outside: LiftedValues) -> bool:
    """Compute a node before the Scan, and return True; False if it has to stay in the body."""
    replaced = ChainMap(outside.each, outside.once)
    if not all(value.is_constant or value in replaced for value in node.inputs):
        return False
    if bodies(node.op) or not {*node.outputs}.isdisjoint(scan.body.outputs):
        return False
    is_each = [value in outside.each for value in node.inputs]
    values = [replaced.get(value, value) for value in node.inputs]
    return not _grows(node, is_each) and outside.add(build, node, values, is_each)


def _grows(node: Node, is_each: Sequence[bool]) -> bool:
    """Whether the result for all steps is much larger than the sequences that it is computed from."""
    sizes = [_elements(value.shape) for value, each in zip(node.inputs, is_each, strict=True) if each]
    is_limited = bool(sizes) and not isinstance(node.op, MatMul)
    return is_limited and _elements(node.outputs[0].shape) > max(*sizes, SMALL)


def _elements(shape: Shape) -> int:
    """The approximate number of elements: symbols count as 1, because both sides have the same ones."""
    return prod(dim for dim in shape if isinstance(dim, int))


def _scan_without(node: Node, scan: Scan, outside: LiftedValues, gone: Collection[Node]) -> Node:
    """The Scan whose body lacks the moved nodes and reads their results."""
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
