"""Pass: one product for the two directions that read the same sequence."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Array, Graph, Node, Value, fixed
from prototrt.surgery.ir.uniform_constants import concatenate
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import ADD, MatMul, Reshape, Scan, Slice


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The product of one direction with a sequence, for all steps at once: ``x W^T + b``."""

    product: Node
    total: Node
    weights: Array
    bias: Array
    backwards: bool


@needs(Scan, Scan, MatMul, MatMul)
def share_products(graph: Graph) -> Graph:
    """Join the input products of a Scan and of one that runs the other way over the same values.

    Before: ``f = Add(MatMul(x, V), b)``, ``g = Add(MatMul(x, W), c)``, ``Scan(f)``, ``Scan[reverse=True](g)``
    After:  ``s = Add(MatMul(x, [V; W]), [b, c])``, ``f = Slice(s)``, ``g = Slice(s)``
    Left alone: products with other readers, Scans that run in the same direction, and Scans of one step, where
    a product with x can be joined with the one with h: see ``join_products``.
    """
    pairs = _pairs(_sides(graph))
    build = Builder(names_in(graph))
    pair_of = {node: pair for pair in pairs for side in pair for node in (side.product, side.total)}
    done: set[Node] = set()
    for node in graph.nodes:
        if node not in pair_of:
            build.nodes.append(node)
        elif node not in done:
            pair = pair_of[node]
            here = next(side for side in pair if node is side.product)
            _join(build, here.product.inputs[0], pair)
            done.update(part for side in pair for part in (side.product, side.total))
    return graph.with_nodes(build.nodes)


def _sides(graph: Graph) -> dict[Hashable, list[_Side]]:
    """All input products of Scans, grouped by their factors."""
    sides_of: dict[Hashable, list[_Side]] = {}
    scans = [(node, node.op) for node in graph.nodes if isinstance(node.op, Scan)]
    writers = graph.writers()
    readers = graph.readers()
    for node, scan in scans:
        if scan.steps([value.shape for value in node.inputs]) != 1:
            for value in scan.named_inputs(node.inputs).sequences:
                side = _side(value, writers, readers, scan.reverse)
                if side is not None and {*side.product.outputs, *side.total.outputs}.isdisjoint(
                    graph.outputs
                ):
                    sides_of.setdefault(_source(side.product.inputs[0], writers), []).append(side)
    return sides_of


def _side(
    value: Value, writers: Mapping[Value, Node], readers: Mapping[Value, list[Node]], backwards: bool
) -> _Side | None:
    total = writers.get(value)
    if total is None or total.op != ADD or len(readers[value]) != 1:
        return None
    first, bias = total.inputs
    product = writers.get(first)
    if product is None or product.op != MatMul(transpose_b=True) or len(readers[first]) != 1:
        return None
    weights = product.inputs[1].data
    if weights is None or bias.data is None or bias.shape != (1, 1, weights.shape[-2]) or len(weights) != 1:
        return None
    return _Side(product, total, weights, bias.data, backwards)


def _source(value: Value, writers: Mapping[Value, Node]) -> Hashable:
    """A key that equal values share. Reshapes of one value count as equal."""
    node = writers.get(value)
    return (node.op, node.inputs[0]) if node is not None and isinstance(node.op, Reshape) else value


def _pairs(sides_of: Mapping[Hashable, list[_Side]]) -> list[tuple[_Side, _Side]]:
    pairs = []
    for sides in sides_of.values():
        forward = [side for side in sides if not side.backwards]
        backward = [side for side in sides if side.backwards]
        pairs += list(zip(forward, backward, strict=False))
    return pairs


def _join(build: Builder, x: Value, sides: tuple[_Side, ...]) -> None:
    """One product and one sum, and a Slice for each side that writes the output of its old sum."""
    build.origin = sides[0].product.origin
    weights = build.constant(concatenate([side.weights for side in sides], axis=1), "weights")
    bias = build.constant(concatenate([side.bias for side in sides], axis=2), "bias")
    product = build.add(MatMul(transpose_b=True), x, weights, hint="shared_product")
    total = build.add(ADD, product, bias, hint="shared_sum")
    start = 0
    for side in sides:
        rows = fixed(side.total.outputs[0].shape[2], "the number of gates")
        build.nodes.append(replace(side.total, op=Slice(2, start, rows), inputs=(total,)))
        start += rows
