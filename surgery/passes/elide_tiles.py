"""Pass: replace a Tile by a broadcast."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import Binary, Scan, Tile


@needs(Tile)
def elide_tiles(graph: Graph) -> Graph:
    """Remove a Tile of an axis of size 1 where its reader broadcasts.

    Before: ``d = Tile[axis=2, copies=H](c)``, ``y = Multiply(d, x)`` with x (T, N, H)
    After:  ``y = Multiply(c, x)``
    The reader may be in the body of a Scan that runs along d.
    Left alone: a Tile that writes an output, a Tile of a larger axis, and a Tile with a reader
    that does not broadcast (with two tiled operands, neither sets the size of the result).
    """
    tiles, axes = dict[Value, Node](), dict[Value, int]()
    for node in graph.nodes:
        if isinstance(node.op, Tile) and node.inputs[0].shape[node.op.axis] == 1:
            (value,) = node.outputs
            if value not in graph.outputs:
                tiles[value], axes[value] = node, node.op.axis
    inside_scans = {  # as the bodies of Scans read them
        inside
        for node in graph.nodes
        if isinstance(node.op, Scan)
        for outside, inside in zip(node.inputs, node.op.body.inputs, strict=True)
        if outside in tiles
    }
    suspects = {*tiles, *inside_scans}
    readers = graph.readers()
    untiled = {
        value: node.inputs[0]
        for value, node in tiles.items()
        if all(_broadcasts(reader, value, axes[value], suspects) for reader in readers.get(value, []))
    }
    nodes = [_bypass_tiles(node, untiled) for node in graph.nodes if node.outputs[0] not in untiled]
    return graph.with_nodes(nodes)


def _broadcasts(reader: Node, tiled: Value, axis: int, suspects: Container[Value]) -> bool:
    """Whether the reader's result is the same with size 1 along this axis."""
    if isinstance(reader.op, Binary):
        others = [value for value in reader.inputs if value is not tiled]
        return len(others) == 1 and others[0] not in suspects and others[0].shape[axis] == tiled.shape[axis]
    if not isinstance(reader.op, Scan) or axis == 0:
        return False
    scan, inner = reader.op, _body_input(reader, tiled)
    if inner is None or inner in scan.body.outputs:
        return False
    uses = scan.body.readers().get(inner, [])
    return all(_broadcasts(use, inner, axis - 1, suspects) for use in uses)


def _body_input(reader: Node, value: Value) -> Value | None:
    """The body's input for a value that a Scan runs along, if the Scan does not read the value otherwise."""
    scan = reader.op
    assert isinstance(scan, Scan)
    if reader.inputs.count(value) != 1:
        return None
    inner, outer = scan.named_inputs(scan.body.inputs), scan.named_inputs(reader.inputs)
    return dict(zip(outer.sequences, inner.sequences, strict=True)).get(value)


def _bypass_tiles(node: Node, untiled: Mapping[Value, Value]) -> Node:
    """The node with the values before tiling, also in the body of a Scan."""
    if isinstance(node.op, Scan) and any(value in untiled for value in node.inputs):
        inner = {
            inside: replace(inside, shape=untiled[outside].shape[1:])
            for outside, inside in zip(node.inputs, node.op.body.inputs, strict=True)
            if outside in untiled
        }
        body = node.op.body
        nodes = [inside.with_replacements(inner) for inside in body.nodes]
        inputs = tuple(inner.get(value, value) for value in body.inputs)
        node = replace(node, op=replace(node.op, body=replace(body, nodes=tuple(nodes), inputs=inputs)))
    return node.with_replacements(untiled)
