"""Pass: scale rows after a product instead of before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.border import needs
from prototrt.surgery.ops import MULTIPLY, MatMul, Scan


@needs(Scan)
def scale_products(graph: Graph) -> Graph:
    """In the bodies of Scans, apply a factor per row after the product.

    Before: ``s = Multiply(h, d)`` with h (N, H) and d (N, 1), ``p = MatMul(s, w)``
    After:  ``q = MatMul(h, w)``, ``p = Multiply(q, d)``
    Then the backend can fuse the factor with the nodes that follow, and the product reads the state directly.
    Left alone: a factor that varies along the row, and a scaled row with other readers.
    """
    build = Builder(names_in(graph))
    nodes = [_changed(build, node) for node in graph.nodes]
    return (
        graph.with_nodes(nodes) if any(a is not b for a, b in zip(nodes, graph.nodes, strict=True)) else graph
    )


def _changed(build: Builder, node: Node) -> Node:
    """The node, or the Scan over a body that applies the factors after its products."""
    if not isinstance(node.op, Scan):
        return node
    body = node.op.body
    readers, outputs = body.readers(), set(body.outputs)
    scaled = {
        each.outputs[0]: each
        for each in body.nodes
        if each.op == MULTIPLY
        and len(readers.get(each.outputs[0], [])) == 1
        and each.outputs[0] not in outputs
    }
    build.nodes = []
    for each in body.nodes:
        factor = _row_factor(each, scaled)
        if factor is None:
            build.nodes.append(each)
        else:
            _scale_late(build, each, *factor)
    if len(build.nodes) == len(body.nodes):
        return node
    read = {value for each in build.nodes for value in each.inputs} | outputs
    rest = [each for each in build.nodes if not read.isdisjoint(each.outputs)]
    return replace(node, op=replace(node.op, body=body.with_nodes(rest)))


def _row_factor(node: Node, scaled: Mapping[Value, Node]) -> tuple[Value, Value] | None:
    """The rows that a product reads, and their factors, if there is one number per row."""
    if not isinstance(node.op, MatMul) or node.inputs[0] not in scaled:
        return None
    result = scaled[node.inputs[0]].outputs[0]
    for rows, factor in (scaled[result].inputs, scaled[result].inputs[::-1]):
        if rows.shape == result.shape and factor.shape[-1] == 1 != rows.shape[-1]:
            return rows, factor
    return None


def _scale_late(build: Builder, node: Node, rows: Value, factor: Value) -> None:
    build.origin = node.origin
    product = build.add(node.op, rows, node.inputs[1], hint="unscaled")
    build.nodes.append(replace(node, op=MULTIPLY, inputs=(product, factor)))
