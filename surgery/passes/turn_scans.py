"""Pass: run a Scan backwards instead of reversing its sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import Identity, Reverse, Scan


@needs(Scan, Reverse)
def turn_scans(graph: Graph) -> Graph:
    """Run a Scan in the other direction instead of reversing its inputs and outputs.

    Before: ``r = Reverse[axis=0](x)``, ``h, y = Scan(h0, r)``, ``z = Reverse[axis=0](y)``
    After:  ``h, y' = Scan[reverse=True](h0, x)``, ``z = y'``
    Nodes that treat every step alike may come between the Reverse and the Scan: products, sums, reshapes.
    Left alone: a Scan with a sequence that is not reversed.
    """
    build = Builder(names_in(graph))
    writers: dict[Value, Node] = {}
    turned: dict[Value, Value] = {}
    for node in graph.nodes:
        if isinstance(node.op, Scan) and all(
            _is_reversed(value, writers) for value in node.op.named_inputs(node.inputs).sequences
        ):
            _turn(build, node, node.op, writers, turned)
        else:
            build.nodes.append(_straight(node, turned))
        writers |= dict.fromkeys(node.outputs, node)
    return graph.with_nodes(build.nodes)


def _is_reversed(value: Value, writers: Mapping[Value, Node]) -> bool:
    """Whether a value comes from a Reverse of axis 0 through nodes that treat every step alike."""
    node = writers.get(value)
    if node is None or _is_reverse(node):
        return node is not None
    position = _steps_input(node)
    return position is not None and _is_reversed(node.inputs[position], writers)


def _is_reverse(node: Node) -> bool:
    return isinstance(node.op, Reverse) and node.op.axis == 0


def _steps_input(node: Node) -> int | None:
    """The only input of a node with the steps on axis 0, if the node treats every step alike."""
    if len(node.outputs) > 1 or not node.inputs or 0 in node.op.mixes(len(node.inputs[0].shape)):
        return None
    y = node.outputs[0]
    tied = {
        x
        for x, end, groups in node.op.ties(node.inputs, node.outputs)
        if end is y and any(0 in left and 0 in right for left, right in groups)
    }
    moving = [index for index, x in enumerate(node.inputs) if x in tied and x.shape[0] == y.shape[0]]
    return moving[0] if len(moving) == 1 else None


def _turn(
    build: Builder, node: Node, scan: Scan, writers: Mapping[Value, Node], turned: dict[Value, Value]
) -> None:
    """Add the Scan in the other direction, and Reverses that write the outputs of the old Scan."""
    build.origin = node.origin
    read, written = scan.named_inputs(node.inputs), scan.named_outputs(node.outputs)
    straight = tuple(_without_reverse(build, value, writers) for value in read.sequences)
    results = tuple(replace(value, name=build.fresh("turned"), is_surgical=True) for value in written.stacked)
    build.nodes.append(
        replace(
            node,
            op=replace(scan, reverse=not scan.reverse),
            inputs=tuple(replace(read, sequences=straight)),
            outputs=tuple(replace(written, stacked=results)),
        )
    )
    for result, old in zip(results, written.stacked, strict=True):
        turned[old] = result
        name = build.fresh("unturned")
        build.nodes.append(Node(name, Reverse(0), (result,), (old,), node.origin, is_surgical=True))


def _without_reverse(build: Builder, value: Value, writers: Mapping[Value, Node]) -> Value:
    """The value without the Reverse that it comes from."""
    node = writers[value]
    if _is_reverse(node):
        return node.inputs[0]
    position = _steps_input(node)
    assert position is not None
    inputs = list(node.inputs)
    inputs[position] = _without_reverse(build, inputs[position], writers)
    return build.add(node.op, *inputs, hint="straight")


def _straight(node: Node, turned: Mapping[Value, Value]) -> Node:
    """Replace a Reverse of an old Scan's output by a copy of the new Scan's output."""
    if _is_reverse(node) and node.inputs[0] in turned:
        return replace(node, op=Identity(), inputs=(turned[node.inputs[0]],))
    return node
