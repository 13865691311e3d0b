"""Pass: one product for a sum of products."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Value
from prototrt.surgery.ir.uniform_constants import concatenate
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import Binary, Concat, MatMul
from prototrt.surgery.passes.sums import Sums, Term, write_sum


@needs(MatMul, MatMul, Binary)
def join_products(graph: Graph) -> Graph:
    """Multiply rows that lie side by side once, instead of adding their products.

    Before: ``s = Add(Add(MatMul(x, W), b), MatMul(h, R))``, weights as Caffe stores them
    After:  ``s = Add(MatMul(Concat(x, h), [W, R]), b)``
    The products may be of float16, and be cast to float32 before they are added.
    Left alone: products with other readers, products with different numbers of rows, and the user's layers.
    """
    sums = Sums(graph)
    build = Builder(names_in(graph))
    for node in graph.nodes:
        terms = sums.terms(node) if sums.is_whole(node) else []
        if groups := _groups(terms):
            build.origin = node.origin
            others = [term for term in terms if not any(term in group for group in groups)]
            write_sum(build, [_product(build, group) for group in groups], others, node.outputs[0])
        else:
            build.nodes.append(node)
    return graph.with_nodes(build.nodes)


def _groups(terms: Sequence[Term]) -> list[list[Term]]:
    """Products that can be joined: equal in type, rows and columns."""
    groups: dict[Hashable, list[Term]] = defaultdict(list)
    for term in terms:
        if term.product is not None:
            rows, weights = term.product.inputs
            groups[term.is_cast, rows.dtype, rows.shape[:-1], weights.shape[:-1]].append(term)
    return [group for group in groups.values() if len(group) > 1]


def _product(build: Builder, group: Sequence[Term]) -> Value:
    nodes = [term.product for term in group if term.product is not None]
    rows, weights = zip(*(node.inputs for node in nodes), strict=True)
    last = len(rows[0].shape) - 1
    side_by_side = build.add(Concat(last), *rows, hint="side_by_side")
    both = build.constant(concatenate([value.data for value in weights], axis=last), "weights")
    return build.add(MatMul(transpose_b=True), side_by_side, both, hint="joined_product")
