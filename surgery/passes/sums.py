"""Sums of several terms, some of them products: what ``join_products`` and ``join_columns`` make larger products of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, Graph, Node, Value
from prototrt.surgery.ir.uniform_constants import map_elements
from prototrt.surgery.ops import ADD, Cast, MatMul

FULL = DType.FLOAT32


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One of the values that are added; ``is_cast``: to float32, before it is added.

    If the value is columns of a product of rows with constant weights, ``product`` is its node and ``start``
    the first column.
    """

    value: Value
    is_cast: bool = False
    product: Node | None = None
    start: int = 0


class Sums:
    """Sums of several terms: trees of additions whose partial sums have no other reader.

    ``terms_of`` has the terms of values that are not additions.
    """

    def __init__(self, graph: Graph, terms_of: Mapping[Value, Sequence[Term]] | None = None) -> None:
        self._writers = graph.writers()
        self._readers = graph.readers()
        self._kept = {*graph.outputs, *graph.state_outputs}
        self._terms_of = terms_of or {}

    def is_whole(self, node: Node) -> bool:
        """Whether the node is the last addition of its sum."""
        if not _is_part(node, ADD):
            return False
        (y,) = node.outputs
        return y in self._kept or not any(self._adds(reader) for reader in self._readers.get(y, []))

    def terms(self, node: Node) -> list[Term]:
        """What a node adds; the node itself if it adds nothing."""
        return list(self._parts(node, is_cast=False))

    def _terms(self, value: Value, is_cast: bool) -> Iterator[Term]:
        node = self._writers.get(value)
        is_inside = node is not None and value not in self._kept and len(self._readers[value]) == 1
        if node is None or not is_inside or not node.is_surgical:
            yield Term(value, is_cast)
        else:
            yield from self._parts(node, is_cast)

    def _parts(self, node: Node, is_cast: bool) -> Iterator[Term]:
        value = node.outputs[0]
        if value in self._terms_of:
            yield from (replace(term, is_cast=is_cast or term.is_cast) for term in self._terms_of[value])
        elif node.op == ADD:
            for read in node.inputs:
                yield from self._terms(read, is_cast)
        elif node.op == Cast(FULL) and node.inputs[0].dtype is DType.FLOAT16:
            yield from self._terms(node.inputs[0], is_cast=True)
        else:
            yield Term(value, is_cast, node if is_product(node) else None)

    def _adds(self, reader: Node) -> bool:
        """Whether a reader adds its value to a larger sum."""
        if _is_part(reader, Cast(FULL)):
            return any(self._adds(after) for after in self._readers.get(reader.outputs[0], []))
        return _is_part(reader, ADD)


def _is_part(node: Node, op: object) -> bool:
    return node.is_surgical and node.op == op


def is_product(node: Node) -> bool:
    """Whether the node multiplies rows by one constant matrix, stored as Caffe stores weights."""
    if node.op != MatMul(transpose_b=True) or node.inputs[1].data is None:
        return False
    rows, weights = node.inputs
    return len(rows.shape) == len(weights.shape) and all(dim == 1 for dim in weights.shape[:-2])


def write_sum(build: Builder, products: Sequence[Value], others: Sequence[Term], target: Value) -> None:
    """Add the sum of products and of other terms, and let it write ``target``."""
    since = len(build.nodes)
    values = [build.cast(value, target.dtype) for value in products]
    values += [_summand(build, term) for term in others]
    total = reduce(lambda a, b: build.add(ADD, a, b, hint="sum"), values)
    build.write(total, target, since)


def _summand(build: Builder, term: Term) -> Value:
    """The value that the sum adds for a term; a constant is cast now."""
    value = term.value
    if term.is_cast and value.data is not None:
        data = map_elements(lambda array: array.astype(np.float32), value.data)
        return replace(value, dtype=FULL, data=data)
    return build.cast(value, FULL) if term.is_cast else value
