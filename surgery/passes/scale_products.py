"""Pass: scale rows behind a product instead of before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.builder import Builder, names_in
from prototrt.surgery.ops import MULTIPLY, MatMul, Scan


def scale_products(graph: Graph) -> Graph:
    """In the bodies of Scans, let a factor of each row wait until the row is multiplied.

    Before: ``s = Multiply(h, d)`` with h (N, H) and d (N, 1), ``p = MatMul(s, w)``
    After:  ``q = MatMul(h, w)``, ``p = Multiply(q, d)``
    The factor is one with what follows then, and the state goes into the product as it is.
    Left alone: a factor that varies along the row, and a scaled row that anything else reads.
    """
    build = Builder(names_in(graph))
    nodes = [_changed(build, node) for node in graph.nodes]
    return (
        graph.with_nodes(nodes) if any(a is not b for a, b in zip(nodes, graph.nodes, strict=True)) else graph
    )


def _changed(build: Builder, node: Node) -> Node:
    """The node, or the Scan over a body in which the factors wait."""
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
    """The rows that a product reads, and the factor of each, if it is one number a row."""
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
