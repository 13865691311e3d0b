"""Pass: one product for a sum of products."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from prototrt.surgery.ir import DType, Graph, Node, Value
from prototrt.surgery.ir.builder import Builder, names_in
from prototrt.surgery.ir.uniform_constants import map_elements, stacked
from prototrt.surgery.ops import ADD, Cast, Concat, MatMul

FULL = DType.FLOAT32


def join_products(graph: Graph) -> Graph:
    """Multiply rows that lie side by side once, instead of adding their products.

    Before: ``s = Add(Add(MatMul(x, W), b), MatMul(h, R))``, weights as Caffe stores them
    After:  ``s = Add(MatMul(Concat(x, h), [W, R]), b)``
    The products may be of float16, and be cast to float32 before they are added.
    Left alone: products with other readers, products with different numbers of rows, and the user's layers.
    """
    sums = _Sums(graph)
    build = Builder(names_in(graph))
    joined = False
    for node in graph.nodes:
        terms = sums.terms(node) if sums.is_whole(node) else []
        if groups := _groups(terms):
            _join(build, node, terms, groups)
            joined = True
        else:
            build.nodes.append(node)
    return graph.with_nodes(build.nodes) if joined else graph


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """One of the values that are added; ``is_cast``: to float32, before it is added. A product has its node."""

    value: Value
    is_cast: bool
    product: Node | None


class _Sums:
    """Sums of several terms: trees of additions whose partial sums have no other reader."""

    def __init__(self, graph: Graph) -> None:
        self._writers = {value: node for node in graph.nodes for value in node.outputs}
        self._readers = graph.readers()
        self._kept = {*graph.outputs, *graph.state_outputs}

    def is_whole(self, node: Node) -> bool:
        """Whether the node is the last addition of its sum."""
        if not self._is_part(node, ADD):
            return False
        (y,) = node.outputs
        return y in self._kept or not any(self._adds(reader) for reader in self._readers.get(y, []))

    def terms(self, node: Node) -> list[_Term]:
        return [term for value in node.inputs for term in self._terms(value, is_cast=False)]

    def _terms(self, value: Value, is_cast: bool) -> Iterator[_Term]:
        node = self._writers.get(value)
        is_inside = node is not None and value not in self._kept and len(self._readers[value]) == 1
        if node is None or not is_inside or not node.is_surgical:
            yield _Term(value, is_cast, None)
        elif node.op == ADD:
            for read in node.inputs:
                yield from self._terms(read, is_cast)
        elif node.op == Cast(FULL) and node.inputs[0].dtype is DType.FLOAT16:
            yield from self._terms(node.inputs[0], is_cast=True)
        else:
            yield _Term(value, is_cast, node if _is_product(node) else None)

    def _adds(self, reader: Node) -> bool:
        """Whether a reader adds its value to a larger sum."""
        if self._is_part(reader, Cast(FULL)):
            return any(self._adds(after) for after in self._readers.get(reader.outputs[0], []))
        return self._is_part(reader, ADD)

    @staticmethod
    def _is_part(node: Node, op: object) -> bool:
        return node.is_surgical and node.op == op


def _is_product(node: Node) -> bool:
    if node.op != MatMul(transpose_b=True) or node.inputs[1].data is None:
        return False
    rows, weights = node.inputs
    return len(rows.shape) == len(weights.shape) and all(dim == 1 for dim in weights.shape[:-2])


def _groups(terms: Sequence[_Term]) -> list[list[_Term]]:
    """Products that can be one: of one type, with as many rows and columns."""
    found: dict[Hashable, list[_Term]] = defaultdict(list)
    for term in terms:
        if term.product is not None:
            rows, weights = term.product.inputs
            found[term.is_cast, rows.dtype, rows.shape[:-1], weights.shape[:-1]].append(term)
    return [group for group in found.values() if len(group) > 1]


def _join(build: Builder, node: Node, terms: Sequence[_Term], groups: Sequence[Sequence[_Term]]) -> None:
    """Replace the node by one product for each group and additions of these and of the other terms."""
    build.origin, since = node.origin, len(build.nodes)
    joined = {term for group in groups for term in group}
    products = [build.cast(_product(build, group), node.outputs[0].dtype) for group in groups]
    others = [_full(build, term) for term in terms if term not in joined]
    total = reduce(lambda a, b: build.add(ADD, a, b, hint="sum"), [*products, *others])
    build.write(total, node.outputs[0], since)


def _product(build: Builder, group: Sequence[_Term]) -> Value:
    nodes = [term.product for term in group if term.product is not None]
    rows, weights = zip(*(node.inputs for node in nodes), strict=True)
    last = len(rows[0].shape) - 1
    side_by_side = build.add(Concat(last), *rows, hint="side_by_side")
    both = build.constant(stacked([value.data for value in weights], axis=last), "weights")
    return build.add(MatMul(transpose_b=True), side_by_side, both, hint="joined_product")


def _full(build: Builder, term: _Term) -> Value:
    """The term as it is added; a constant is cast now."""
    value = term.value
    if term.is_cast and value.data is not None:
        return replace(
            value, dtype=FULL, data=map_elements(lambda array: array.astype(np.float32), value.data)
        )
    return build.cast(value, FULL) if term.is_cast else value
