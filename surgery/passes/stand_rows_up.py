"""Pass: multiply a single row as a column, so that TensorRT ends the product with what follows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prototrt.caffe_proto.common.records import replace
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ops import Binary, Cast, MatMul, Reshape, Slice
from prototrt.surgery.ops.elementwise import Elementwise


def stand_rows_up(graph: Graph) -> Graph:
    """Put the weights of products of one row first.

    Before: ``p = MatMul[transpose_b=True](h, const w)`` with h (1, 1, 256) and w (1, 200, 256)
    After:  ``p = Reshape[target=(1, 1, 200)](MatMul[transpose_b=True](const w, h))``
    TensorRT for RTX computes the sums of a row in one kernel with bias and activation only if the weights stand first.
    Left alone: rows from outside the layer, which it joins with what computes them, and rows that a Concat writes;
    results that are cut into gates, for which it would launch a kernel each.
    """
    build = Builder(names_in(graph))
    readers = graph.readers()
    writers = graph.writers()
    for node in graph.nodes:
        if not _is_row(node) or not _is_inside(node, writers) or _is_cut(node, readers):
            build.nodes.append(node)
            continue
        row, weights = node.inputs
        build.origin = node.origin
        column = build.add(MatMul(transpose_b=True), weights, row, hint="column")
        target = (*(1 for _ in row.shape[1:]), weights.array.shape[-2])
        build.nodes.append(replace(node, op=Reshape(target), inputs=(column,)))
    return graph.with_nodes(build.nodes)


def _is_row(node: Node) -> bool:
    if node.op != MatMul(transpose_b=True) or not node.inputs[1].is_constant:
        return False
    row, weights = node.inputs
    return all(dim == 1 for dim in (*row.shape[:-1], *weights.shape[:-2]))


def _is_inside(node: Node, writers: Mapping[Value, Node]) -> bool:
    """Whether the row of a product is computed element by element in the same layer, but for its type."""
    writer = writers.get(node.inputs[0])
    while writer is not None and isinstance(writer.op, Cast):
        writer = writers.get(writer.inputs[0])
    return writer is not None and writer.origin == node.origin and isinstance(writer.op, Elementwise)


def _is_cut(node: Node, readers: Mapping[Value, Sequence[Node]]) -> bool:
    """Whether a product, or a sum with it, is cut."""
    follow = readers.get(node.outputs[0], ())
    while len(follow) == 1 and isinstance(follow[0].op, (Binary, Cast)):
        follow = readers.get(follow[0].outputs[0], ())
    return any(isinstance(each.op, Slice) for each in follow)
