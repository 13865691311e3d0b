"""Pass: one product of several matrices for products that do not depend on each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Op, Value
from prototrt.surgery.ir.uniform_constants import concatenate, memory_of
from prototrt.surgery.ir.verification import in_order, needs
from prototrt.surgery.ops import Concat, MatMul, Slice
from prototrt.surgery.passes.moved_values import reshape_to


@needs(MatMul, MatMul)
def stack_products(graph: Graph) -> Graph:
    """Multiply rows by constant weights of equal sizes at once.

    Before: ``p = MatMul(x, V)``, ``q = MatMul(y, W)`` with x and y (1, N, D), V and W (1, R, D)
    After:  ``r = MatMul(Concat[axis=0](x, y), [V, W])`` with r (2, N, R), of which p and q are slices
    Products of both directions of a step are computed side by side then, and products of a GRU with x and h.
    Rows (N, D) get a first axis if their products are of one layer.
    Left alone: products that depend on each other, the user's layers, and products whose weights would be stored
    twice, because others of their products have no partner or another one.
    """
    groups = {product: group for group in _groups(graph) for product in group}
    build = Builder(names_in(graph))
    matrices: dict[Hashable, Value] = {}
    for node in graph.nodes:
        if node not in groups:
            build.nodes.append(node)
        elif node is groups[node][0]:
            _stack(build, groups[node], matrices)
    return graph.with_nodes(in_order(build.nodes))


def _groups(graph: Graph) -> list[Sequence[Node]]:
    """Products that can be one.

    The height of a product is the largest number of products from it to an output. Products of equal
    height do not depend on each other.
    """
    readers = graph.readers()
    height: dict[Node, int] = {}
    products: dict[Hashable, list[Node]] = defaultdict(list)
    for node in reversed(graph.nodes):
        above = [height[reader] for value in node.outputs for reader in readers.get(value, [])]
        height[node] = max(above, default=0) + _is_single(node)
        if _is_single(node):
            rows, weights = node.inputs
            # Without a first axis of size 1, it may be a product of any layer.
            layer = node.origin if len(rows.shape) == 2 else None
            products[height[node], layer, rows.dtype, rows.shape, weights.shape].append(node)
    return _without_second_copies([group[::-1] for group in products.values()])


def _without_second_copies(groups: Sequence[Sequence[Node]]) -> list[Sequence[Node]]:
    """Groups of several products, in which weights always have the same partners."""
    partners: dict[Hashable, set[Hashable]] = defaultdict(set)
    for group in groups:
        for key in _weights(group):
            partners[key].add(_weights(group))
    return [
        group
        for group in groups
        if len(group) > 1 and all(len(partners[key]) == 1 for key in _weights(group))
    ]


def _weights(group: Sequence[Node]) -> tuple[Hashable, ...]:
    """The weights of the products: equal where they are the same memory, as in the copies of a step."""
    return tuple(memory_of(node.inputs[1].data) for node in group if node.inputs[1].data is not None)


def _is_single(node: Node) -> bool:
    """Whether a node multiplies rows by one constant matrix, both with a first axis of size 1 or without one."""
    if not node.is_surgical or node.op != MatMul(transpose_b=True) or not node.inputs[1].is_constant:
        return False
    rows, weights = node.inputs
    return len(rows.shape) == len(weights.shape) and rows.shape[:-2] == weights.shape[:-2] in ((), (1,))


def _stack(build: Builder, group: Sequence[Node], matrices: dict[Hashable, Value]) -> None:
    """Add the joint product, and a Slice for each product that writes its old output.

    ``matrices`` are the stacked weights so far, which copies of a step share.
    """
    build.origin = group[0].origin
    rows, weights = zip(*(node.inputs for node in group), strict=True)
    stack = [build.reshape(value, (1, *value.shape[-2:])) for value in rows]
    side_by_side = build.add(Concat(0), *stack, hint="rows")
    key = _weights(group)
    if key not in matrices:
        arrays = [value.data.reshape((1, *value.data.shape[-2:])) for value in weights]
        matrices[key] = build.constant(concatenate(arrays), "matrices")
    joint = build.add(MatMul(transpose_b=True), side_by_side, matrices[key], hint="stacked_product")
    for at, node in enumerate(group):
        row: Op = Slice(0, at, 1)
        if len(node.outputs[0].shape) == 3:
            build.nodes.append(replace(node, op=row, inputs=(joint,)))
        else:
            product = build.add(row, joint, hint="row")
            flat = reshape_to(node.outputs[0].shape, product.shape)
            build.nodes.append(replace(node, op=flat, inputs=(product,)))
