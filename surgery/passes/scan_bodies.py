"""Passes for the bodies of Scans: factors go behind products, and sums of all steps into the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import DType, Graph, Node, Value
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import ADD, MULTIPLY, Binary, MatMul, Scan


@needs(Scan)
def scale_products(graph: Graph) -> Graph:
    """In the bodies of Scans, apply a factor per row after the product.

    Before: ``s = Multiply(h, d)`` with h (N, H) and d (N, 1), ``p = MatMul(s, w)``
    After:  ``q = MatMul(h, w)``, ``p = Multiply(q, d)``
    Then the backend can fuse the factor with the nodes that follow, and the product reads the state directly.
    Left alone: a factor that varies along the row, and a scaled row with other readers.
    """
    build = Builder(names_in(graph))
    return graph.with_nodes([_scale_after_products(build, node) for node in graph.nodes])


def _scale_after_products(build: Builder, node: Node) -> Node:
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
            rows, factors = factor
            build.origin = each.origin
            product = build.add(each.op, rows, each.inputs[1], hint="unscaled")
            build.nodes.append(replace(each, op=MULTIPLY, inputs=(product, factors)))
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


@needs(Scan, Binary)
def sink_sums(graph: Graph) -> Graph:
    """Move the addition of one row to all elements of a sequence into the body of the Scan.

    Before: ``s = Add(p, const b)`` with p (T, N, R) and b (1, 1, R), ``h = Scan[h' = TanH(s_t)](h0, s)``
    After:  ``h = Scan[h' = TanH(Add(p_t, b'))](h0, p)`` with b' (1, R)
    In the body, the sum is fused with the other work of a step. Outside, it reads and writes the memory of all steps.
    Left alone: a sum with other readers, a sum with a row that varies from step to step, and a sum of float16.
    """
    writers = graph.writers()
    readers = graph.readers()
    sums = {
        value: writers[value]
        for node in graph.nodes
        if isinstance(node.op, Scan)
        for value in node.op.named_inputs(node.inputs).sequences
        if value in writers and _is_sum(writers[value])
        if readers[value] == [node] and value not in graph.outputs
    }
    build = Builder(names_in(graph))
    nodes = [_sink(build, node, sums) for node in graph.nodes if node.outputs[0] not in sums]
    return graph.with_nodes(nodes)


def _is_sum(node: Node) -> bool:
    """Whether the node adds one constant to every element along axis 0.

    A float16 sum would be a separate kernel in each step, because a cast follows it there.
    """
    if (
        node.op != ADD
        or node.outputs[0].dtype is not DType.FLOAT32
        or len({value.shape for value in (node.inputs[0], *node.outputs)}) > 1
    ):
        return False
    row = node.inputs[1]
    return row.is_constant and row.shape[0] == 1


def _sink(build: Builder, node: Node, sums: Mapping[Value, Node]) -> Node:
    """The node; for a Scan of these sums, the Scan whose body adds their rows."""
    if not isinstance(node.op, Scan) or not any(value in sums for value in node.inputs):
        return node
    body = node.op.body
    build.nodes, stands_for = [], {}
    for outside, inside in zip(node.inputs, body.inputs, strict=True):
        if outside in sums:
            build.origin = sums[outside].origin
            row = sums[outside].inputs[1]
            flat = build.reshape(row, row.shape[1:])
            stands_for[inside] = build.add(ADD, inside, flat, hint="sum")
    changed = body.with_nodes(
        [*build.nodes, *(each.with_replacements(stands_for) for each in body.nodes)], stands_for
    )
    read = {outside: each.inputs[0] for outside, each in sums.items()}
    return replace(node.with_replacements(read), op=replace(node.op, body=changed))
