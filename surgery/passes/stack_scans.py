"""Pass: join Scans with equal bodies into one Scan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Op, Value, bodies, wiring
from prototrt.surgery.ir.uniform_constants import are_equal, concatenate
from prototrt.surgery.ir.verification import in_order, needs
from prototrt.surgery.ops import Axis, Concat, Reshape, Reverse, Scan, ScanInputs, Slice
from prototrt.surgery.passes.all_steps import LiftedValues


@needs(Scan)
def stack_scans(graph: Graph) -> Graph:
    """Join Scans with equal structure that do not depend on each other, in either direction.

    Before: ``h, y = Scan[body](h0, x)``, ``k, z = Scan[reverse=True, body'](k0, w)``
    After:  ``s, o = Scan[body over both](Concat(h0, k0), Concat(x, Reverse(w)))``, of which h, k, y and
            z are slices. The sizes (N, H) of a state become (2, N, H); weights are stacked.
    A Scan without a partner that takes states of shape (1, N, H) keeps this shape in its body.
    Left alone: other Scans, and Scans whose body has a primitive that does not support an additional axis.
    """
    build = Builder(names_in(graph))
    tried: set[Node] = set()
    while joints := _joints(build, graph, tried):
        joined = {node for group, _ in joints for node in group}
        made = {group[-1]: nodes for group, nodes in joints}
        kept = ([node] if node not in joined else made.get(node, []) for node in graph.nodes)
        graph = graph.with_nodes(in_order([node for nodes in kept for node in nodes]))
    return graph


_Joint: TypeAlias = tuple[Sequence[Node], Sequence[Node]]
"""Scans, and the nodes that replace them."""


def _joints(build: Builder, graph: Graph, tried: set[Node]) -> list[_Joint]:
    """Scans that are joined at once. Adds all to ``tried``: joining others later does not make them independent."""
    writers = graph.writers()
    joined: set[Node] = set()
    joints: list[_Joint] = []
    for group in _groups(graph, tried):
        tried.update(group)
        if len(group) > 1 or _has_axis_to_spare(group[0], writers, joined):
            nodes = _join(build, group)
            if nodes:
                joints.append((group, nodes))
                joined.update(group)
    return joints


def _groups(graph: Graph, tried: Collection[Node]) -> list[list[Node]]:
    """Scans with equal structure that are independent of each other, by the place of their first one."""
    kinds: dict[object, list[list[tuple[int, Node]]]] = {}
    for place, node in enumerate(graph.nodes):
        if isinstance(node.op, Scan) and node not in tried:
            alike = kinds.setdefault(_interface(node, node.op), [])
            same = next((each for each in alike if _have_equal_bodies(each[0][1], node)), None)
            alike.append([(place, node)]) if same is None else same.append((place, node))
    levels = [group for alike in kinds.values() for each in alike for group in _levels(graph, each)]
    return [[node for _, node in group] for group in sorted(levels, key=lambda group: group[0][0])]


def _levels(graph: Graph, alike: Sequence[tuple[int, Node]]) -> Iterable[list[tuple[int, Node]]]:
    """Scans of equal structure, by how many of them one needs before it: those of one level are independent."""
    places, levels = dict(alike), defaultdict[int, list[tuple[int, Node]]](list)
    needed: dict[Value, int] = {}
    for place in range(alike[0][0], alike[-1][0] + 1):
        node = graph.nodes[place]
        level = max((needed.get(value, 0) for value in node.inputs), default=0)
        if place in places:
            levels[level].append((place, node))
            level += 1
        if level:
            needed |= dict.fromkeys(node.outputs, level)
    return levels.values()


def _interface(node: Node, scan: Scan) -> object:
    """What Scans over the same steps have in common, apart from their bodies."""
    types = tuple((value.dtype, value.shape) for value in node.inputs)
    return scan.states, scan.sequences, scan.named_inputs(node.inputs).invariants, types


def _have_equal_bodies(a: Node, b: Node) -> bool:
    """Whether the bodies of two Scans are equal apart from constants."""
    assert isinstance(a.op, Scan)
    assert isinstance(b.op, Scan)
    return wiring(a.op.body) == wiring(b.op.body)


def _has_axis_to_spare(node: Node, writers: Mapping[Value, Node], joined: Collection[Node]) -> bool:
    """Whether an initial state is a reshape of a value with an additional first axis of size 1.

    So are the last states of Scans that are ``joined``.
    """
    assert isinstance(node.op, Scan)
    made = [writers[state] for state in node.op.named_inputs(node.inputs).states if state in writers]
    return any(
        each in joined
        or (isinstance(each.op, Reshape) and each.inputs[0].shape == (1, *each.outputs[0].shape))
        for each in made
    )


def _join(build: Builder, group: Sequence[Node]) -> Sequence[Node]:
    """The nodes that replace these Scans, with one Scan; none if they cannot be joined."""
    build.nodes, build.origin = [], group[0].origin
    scans = [node.op for node in group if isinstance(node.op, Scan)]
    body = stacked_body(build, scans)
    if body is None:
        return []
    _add_joint(build, group, scans, body)
    return build.nodes


def _add_joint(build: Builder, group: Sequence[Node], scans: Sequence[Scan], body: Graph) -> None:
    """Add the Scan over the inputs of all of them, and the nodes that cut its results into theirs."""
    op = replace(scans[0], body=body)
    is_turned = [scan.reverse != op.reverse for scan in scans]
    read = [op.named_inputs(node.inputs) for node in group]
    written = [op.named_outputs(node.outputs) for node in group]
    states = zip(*(each.states for each in read), strict=True)
    sequences = zip(*(each.sequences for each in read), strict=True)
    inputs = ScanInputs(
        tuple(_stack(build, 0, values, "rows") for values in states),
        tuple(_stack(build, 1, _turn(build, values, is_turned), "side_by_side") for values in sequences),
        read[0].invariants,
    )
    shapes = op.shape(*(value.shape for value in inputs))
    outputs = op.named_outputs(
        [
            Value(build.fresh("stacked"), value.dtype, shape, is_surgical=True)
            for value, shape in zip(body.outputs, shapes, strict=True)
        ]
    )
    if len(group) == 1:  # its body returns the elements of sequences in their old shape
        outputs = replace(outputs, stacked=written[0].stacked)
    build.nodes.append(replace(group[0], op=op, inputs=tuple(inputs), outputs=tuple(outputs)))
    for place, (node, old) in enumerate(zip(group, written, strict=True)):
        build.origin = node.origin
        for joint, state in zip(outputs.states, old.states, strict=True):
            _cut(build, joint, 0, place, [], state)
        if len(group) > 1:
            turned: Sequence[Op] = [Reverse(0)] if is_turned[place] else []
            for joint, sequence in zip(outputs.stacked, old.stacked, strict=True):
                _cut(build, joint, 1, place, turned, sequence)


def _turn(build: Builder, sequences: Iterable[Value], are_turned: Iterable[bool]) -> Iterator[Value]:
    for value, is_turned in zip(sequences, are_turned, strict=True):
        yield build.add(Reverse(0), value, hint="turned") if is_turned else value


def _stack(build: Builder, axis: int, values: Iterable[Value], hint: str) -> Value:
    """Values of one shape as one value with an additional axis."""
    rows = [build.reshape(value, (*value.shape[:axis], 1, *value.shape[axis:])) for value in values]
    return rows[0] if len(rows) == 1 else build.add(Concat(axis), *rows, hint=hint)


def _cut(build: Builder, joint: Value, axis: int, place: int, then: Sequence[Op], old: Value) -> None:
    """Write the old value: the element at this place of an axis, after these operations."""
    whole = list(enumerate(joint.shape))
    target = tuple(Axis(at) if isinstance(dim, str) else dim for at, dim in whole if at != axis)
    ops: list[Op] = [Reshape(target), *then]
    if joint.shape[axis] != 1:
        ops.insert(0, Slice(axis, place, 1))
    for op in ops[:-1]:
        joint = build.add(op, joint, hint="one")
    build.nodes.append(Node(build.fresh("one"), ops[-1], (joint,), (old,), build.origin, is_surgical=True))


def stacked_body(build: Builder, scans: Sequence[Scan]) -> Graph | None:
    """One body for Scans with equal structure; None if a primitive does not support an additional axis.

    States and the elements of sequences have the new axis. A single body returns elements without
    it: nothing needs to be cut outside.
    """
    body, count = build.body(), len(scans)
    first, held = scans[0], LiftedValues()
    inputs = first.named_inputs(first.body.inputs)
    for value in (*inputs.states, *inputs.sequences):
        held.each[value] = body.body_input("stacked", (count, *value.shape), value.dtype)
    for value in inputs.invariants:
        held.once[value] = body.body_input("same", value.shape, value.dtype)
    for nodes in zip(*(scan.body.nodes for scan in scans), strict=True):
        if not _try_join(body, nodes, held):
            return None
    if any(value not in held.each for value in first.body.outputs):
        return None
    results = first.named_outputs([held.each[value] for value in first.body.outputs])
    if count == 1:
        shown = zip(results.stacked, first.named_outputs(first.body.outputs).stacked, strict=True)
        results = replace(results, stacked=tuple(body.reshape(new, old.shape) for new, old in shown))
    return body.graph(first.body.name, tuple(results))


def _try_join(body: Builder, nodes: Sequence[Node], held: LiftedValues) -> bool:
    """Add one node for the nodes at the same place of their bodies, and return True; False if that is not possible."""
    body.origin = nodes[0].origin
    read = [_joint(body, values, held) for values in zip(*(node.inputs for node in nodes), strict=True)]
    values, is_each = zip(*read, strict=True) if read else ((), ())
    return held.add(body, nodes[0], values, is_each) and not bodies(nodes[0].op)


def _joint(body: Builder, read: Sequence[Value], held: LiftedValues) -> tuple[Value, bool]:
    """The input of the nodes at the same place, and whether it has the new axis."""
    first = read[0]
    if not first.is_constant:
        return (held.each[first], True) if first in held.each else (held.once[first], False)
    arrays = [value.data for value in read if value.data is not None]
    if all(array is arrays[0] or are_equal(array, arrays[0]) for array in arrays[1:]):
        return first, False
    return body.constant(concatenate([array[None] for array in arrays]), "stacked"), True
