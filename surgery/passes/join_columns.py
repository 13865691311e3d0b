"""Pass: one product for products whose columns are cut apart and added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Array, Graph, Node, Value, fixed, symbols_in
from prototrt.surgery.ir.uniform_constants import concatenate
from prototrt.surgery.ir.verification import in_order, needs
from prototrt.surgery.ops import Binary, Concat, MatMul, Slice
from prototrt.surgery.passes.sums import Sums, Term, is_product, write_sum

MOST_ZEROS = 1 << 20
"""In bytes. A GPU reads this much in about the time that it needs to start a kernel."""


@needs(MatMul, MatMul, Slice, Binary)
def join_columns(graph: Graph) -> Graph:
    """Multiply once where columns of one product are added to another product.

    Before: ``p = MatMul(x, [V; W])``, ``q = MatMul(h, U)``, ``s = Add(Slice(p), q)``, ``t = Slice(p)``
    After:  ``r = MatMul(Concat(x, h), [V, U; W, 0])``, ``s = Slice(r)``, ``t = Slice(r)``
    A constant that is added to p before it is cut is added to s and t instead.
    Left alone: products that depend on each other, products of equal sizes, which ``stack_products``
    joins without zeros, and products whose joint weights would contain more than 1 MiB of zeros.
    """
    build = Builder(names_in(graph))
    groups = _groups(graph, _cuts(graph, build))
    group_of = {segment.node: group for group in groups for segment in group.segments}
    for node in graph.nodes:
        group = group_of.get(node)
        if group is None:
            build.nodes.append(node)
        elif node is group.segments[0].node:
            _write(build, group)
    return graph.with_nodes(in_order(build.nodes))


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """Columns of a joint product: what a sum or a Slice reads of it. ``others`` are added to them."""

    node: Node
    pieces: Mapping[Node, Term]
    others: Sequence[Term]

    @property
    def adds_columns(self) -> bool:
        """Whether it adds columns of several products that can be joined: equal in type, rows and columns."""
        kinds = {
            (piece.is_cast, product.inputs[0].dtype, product.inputs[0].shape[:-1], piece.value.shape)
            for product, piece in self.pieces.items()
        }
        return len(self.pieces) > 1 and len(kinds) == 1

    @property
    def size(self) -> int:
        return max(map(_columns, self.pieces.values()))


def _segment(node: Node, terms: Sequence[Term]) -> _Segment:
    pieces = {term.product: term for term in terms if term.product is not None}
    return _Segment(node, pieces, [term for term in terms if term not in pieces.values()])


@dataclass(frozen=True, slots=True, eq=False)
class _JointProducts:
    """Products that are computed at once, and all that is read of them."""

    products: Sequence[Node]
    segments: Sequence[_Segment]

    def zeros(self) -> int:
        """Bytes of zeros in the joint weights."""
        inner = sum(_inner(product) for product in self.products)
        used = sum(
            _columns(piece) * _inner(product)
            for segment in self.segments
            for product, piece in segment.pieces.items()
        )
        columns = sum(segment.size for segment in self.segments)
        return (columns * inner - used) * self.products[0].inputs[1].dtype.numpy.itemsize


def _columns(term: Term) -> int:
    return fixed(term.value.shape[-1], "the columns of a product")


def _inner(product: Node) -> int:
    return fixed(product.inputs[1].shape[-1], "the inner size of a product")


def _cuts(graph: Graph, build: Builder) -> dict[Node, list[Term]]:
    """The terms of each Slice that cuts columns out of a product, or out of the sum of a product and constants.

    Nothing but such Slices may read the product or the sum.
    """
    sums, kept = Sums(graph), {*graph.outputs, *graph.state_outputs}
    writers = graph.writers()
    terms_of: dict[Node, list[Term]] = {}
    for value, readers in graph.readers().items():
        whole = writers.get(value)
        if whole is None or not whole.is_surgical or value in kept or not all(map(_cuts_columns, readers)):
            continue
        terms = sums.terms(whole)
        varying = [term for term in terms if not term.value.is_constant]
        if len(varying) == 1 and varying[0].product is not None and varying[0].value.shape == value.shape:
            for node in readers:
                terms_of[node] = [_cut(build, node, term) for term in terms]
    return terms_of


def _cuts_columns(node: Node) -> bool:
    op = node.op
    is_last = isinstance(op, Slice) and op.axis == len(node.inputs[0].shape) - 1
    return node.is_surgical and is_last and not symbols_in(op)


def _cut(build: Builder, node: Node, term: Term) -> Term:
    """The columns of a term that a Slice reads."""
    assert isinstance(node.op, Slice)
    if term.product is not None:
        return replace(term, value=node.outputs[0], start=fixed(node.op.start, "a start"))
    if term.value.shape[-1] == 1:
        return term
    (columns,) = node.op.evaluate(term.value.array)
    return replace(term, value=build.constant(columns, "columns"))


def _groups(graph: Graph, cuts: Mapping[Node, list[Term]]) -> list[_JointProducts]:
    """Products whose columns are added by sums."""
    group_of: dict[Node, _JointProducts] = {}
    for node, terms in cuts.items():
        united = _join(group_of, _segment(node, terms))
        group_of[united.products[0]] = united
    if not group_of:
        return []
    sums = Sums(graph, {node.outputs[0]: terms for node, terms in cuts.items()})
    below = _products_below(graph)
    for node in graph.nodes:
        segment = _segment(node, sums.terms(node)) if sums.is_whole(node) else None
        if segment is not None and segment.adds_columns and not group_of.keys().isdisjoint(segment.pieces):
            united = _join(group_of, segment)
            is_independent = all(below[product].isdisjoint(united.products) for product in united.products)
            if is_independent and _is_worth_it(united):
                group_of.update(dict.fromkeys(united.products, united))
    groups = dict.fromkeys(group_of.values())
    return [group for group in groups if len(group.products) > 1]


def _join(group_of: Mapping[Node, _JointProducts], segment: _Segment) -> _JointProducts:
    """The groups of the products that a sum adds, with the sum instead of the Slices that only it reads."""
    groups = dict.fromkeys(group_of.get(product, _JointProducts([product], [])) for product in segment.pieces)
    added = {piece.value for piece in segment.pieces.values()}
    others = [each for group in groups for each in group.segments if each.node.outputs[0] not in added]
    return _JointProducts([product for group in groups for product in group.products], [*others, segment])


def _is_worth_it(group: _JointProducts) -> bool:
    sizes = {product.inputs[1].shape for product in group.products}
    return len(sizes) > 1 and group.zeros() <= MOST_ZEROS


def _products_below(graph: Graph) -> dict[Node, frozenset[Node]]:
    """The products that each product depends on."""
    products: dict[Node, frozenset[Node]] = {}
    below: dict[Value, frozenset[Node]] = {}
    for node in graph.nodes:
        before = frozenset().union(*(below.get(value, frozenset()) for value in node.inputs))
        if is_product(node):
            products[node] = before
            before |= {node}
        below.update(dict.fromkeys(node.outputs, before))
    return products


def _write(build: Builder, group: _JointProducts) -> None:
    """Add the joint product, and what is read of it."""
    build.origin = group.segments[0].node.origin
    rows = [product.inputs[0] for product in group.products]
    last = len(rows[0].shape) - 1
    side_by_side = build.add(Concat(last), *rows, hint="side_by_side")
    blocks = [
        concatenate([_block(product, segment) for product in group.products], axis=last)
        for segment in group.segments
    ]
    weights = build.constant(concatenate(blocks, axis=last - 1), "weights")
    joint = build.add(MatMul(transpose_b=True), side_by_side, weights, hint="joined_product")
    start = 0
    for segment in group.segments:
        build.origin = segment.node.origin
        columns = build.add(Slice(last, start, segment.size), joint, hint="columns")
        write_sum(build, [columns], segment.others, segment.node.outputs[0])
        start += segment.size


def _block(product: Node, segment: _Segment) -> Array:
    """The weights of a product for the columns of a segment: its own, or zeros."""
    weights = product.inputs[1].data
    assert weights is not None
    if product in segment.pieces:
        start = segment.pieces[product].start
        return weights[..., start : start + segment.size, :]
    return np.zeros((*weights.shape[:-2], segment.size, weights.shape[-1]), weights.dtype)
