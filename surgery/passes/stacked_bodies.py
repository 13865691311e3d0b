"""The bodies of several Scans as one. All values get a first axis, with one element for each Scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Graph, Node, Value, bodies
from prototrt.surgery.ir.uniform_constants import are_equal, stacked
from prototrt.surgery.ops import Scan
from prototrt.surgery.passes.all_steps import ALL_STEPS, AllSteps


@dataclass(slots=True)
class _Held:
    """The values of the joint body for the values of the first: with the new axis (``each``), or unchanged."""

    each: dict[Value, Value] = field(default_factory=dict)
    once: dict[Value, Value] = field(default_factory=dict)


def stacked_body(build: Builder, scans: Sequence[Scan]) -> Graph | None:
    """One body for Scans with equal structure; None if a primitive does not support an additional axis.

    States and the elements of sequences have the new axis. A single body returns elements without
    it: nothing needs to be cut outside.
    """
    body, count = build.body(), len(scans)
    first, held = scans[0], _Held()
    inputs = first.named_inputs(first.body.inputs)
    for value in (*inputs.states, *inputs.sequences):
        held.each[value] = body.body_input("stacked", (count, *value.shape), value.dtype)
    for value in inputs.invariants:
        held.once[value] = body.body_input("same", value.shape, value.dtype)
    for nodes in zip(*(scan.body.nodes for scan in scans), strict=True):
        if not _add(body, nodes, held):
            return None
    if any(value not in held.each for value in first.body.outputs):
        return None
    results = first.named_outputs([held.each[value] for value in first.body.outputs])
    if count == 1:
        shown = zip(results.stacked, first.named_outputs(first.body.outputs).stacked, strict=True)
        results = replace(results, stacked=tuple(body.reshape(new, old.shape) for new, old in shown))
    return body.graph(first.body.name, tuple(results))


def _add(body: Builder, nodes: Sequence[Node], held: _Held) -> bool:
    """Add one node for the nodes at the same place of their bodies; False if that is not possible."""
    first = nodes[0]
    body.origin = first.origin
    values = [_joint(body, read, held) for read in zip(*(node.inputs for node in nodes), strict=True)]
    is_each = [each for _, each in values]
    if not any(is_each):
        results = body.add_all(first.op, *(value for value, _ in values), hint=first.hint)
        held.once.update(zip(first.outputs, results, strict=True))
        return not bodies(first.op)
    kind = _kind(first)
    if kind is None or not kind.suits(first.op, is_each):
        return False
    held.each[first.outputs[0]] = kind.apply(
        body, first.op, [value for value, _ in values], is_each, first.hint
    )
    return True


def _kind(node: Node) -> AllSteps | None:
    return next((kind for op, kind in ALL_STEPS.items() if isinstance(node.op, op)), None)


def _joint(body: Builder, read: Sequence[Value], held: _Held) -> tuple[Value, bool]:
    """The input of the nodes at the same place, and whether it has the new axis."""
    first = read[0]
    if not first.is_constant:
        return (held.each[first], True) if first in held.each else (held.once[first], False)
    arrays = [value.data for value in read if value.data is not None]
    if all(array is arrays[0] or are_equal(array, arrays[0]) for array in arrays[1:]):
        return first, False
    return body.constant(stacked([array[None] for array in arrays]), "stacked"), True
