"""Pass: pad tiny products with zeros, so that TensorRT computes them as products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Value, element_count
from prototrt.surgery.ops import MatMul, Pad, Scan

WIDTH = 8
"""The inner size that a tiny product gets. It is computed as a product from 7 on."""
MOST_OF_ONE_ROW = 6
MOST_OF_ANY_NUMBER_OF_ROWS = 4
"""The largest inner sizes that are spelled out, as measured."""
FEW = 4
"""The number of tiny products outside Scans that may be spelled out: one or two layers, run for one step."""


def widen_products(graph: Graph) -> Graph:
    """Pad products of one row, or of an unknown number of rows, to an inner size of 8.

    Before: ``p = MatMul[transpose_b=True](h, const w)`` in the body of a Scan, with h (1, 5) and w (20, 5)
    After:  ``p = MatMul[transpose_b=True](Pad[after=(0, 3)](h), const w')`` with w' (20, 8), padded with zeros
    TensorRT for RTX writes a product of one row with few elements as sums, and repeats the sums of all
    earlier steps in each: a loop over a cell with 5 hidden units took 200 s and 195 MB to build.
    Left alone: products of several rows, of one element or more than 6, of two computed values, with several
    matrices in the body of a Scan, and up to 4 matrices outside Scans.
    """
    build = Builder(names_in(graph))
    tiny = {node: _matrices(node) for node in graph.nodes if _is_tiny(node)}
    return _WideProducts(build).graph(graph, set(tiny) if sum(tiny.values()) > FEW else set())


class _WideProducts:
    """Widens products. Shared weights are widened once."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.weights: dict[Value, Value] = {}

    def graph(self, graph: Graph, chosen: set[Node]) -> Graph:
        """A graph or a body with the chosen products widened; itself if nothing changes."""
        outer, self.build.nodes = self.build.nodes, []
        for node in graph.nodes:
            if isinstance(node.op, Scan):
                old = node.op.body
                # Several matrices in a body are not spelled out.
                body = self.graph(
                    old, {each for each in old.nodes if _is_tiny(each) and _matrices(each) == 1}
                )
                node = node if body is old else replace(node, op=replace(node.op, body=body))
            elif node in chosen:
                node = self._widen(node)
            self.build.nodes.append(node)
        nodes, self.build.nodes = self.build.nodes, outer
        return graph.with_nodes(nodes)

    def _widen(self, node: Node) -> Node:
        x, weights = node.inputs
        self.build.origin = node.origin
        before, after = _fill(x, len(x.shape) - 1)
        wide = self.build.add(Pad(before, after), x, hint="wide")
        return replace(node, inputs=(wide, self._wide_weights(node, weights)))

    def _wide_weights(self, node: Node, weights: Value) -> Value:
        if weights not in self.weights:
            before, after = _fill(weights, _inner_axis(node))
            data = np.pad(weights.array, list(zip(before, after, strict=True)))
            self.weights[weights] = self.build.constant(data, "wide")
        return self.weights[weights]


def _is_tiny(node: Node) -> bool:
    """Whether a product of constant weights would be spelled out."""
    if not isinstance(node.op, MatMul) or not node.inputs[1].is_constant:
        return False
    x, weights = node.inputs
    matrices = (*weights.shape[:-2], 1)
    rows = {dim for dim, each in zip(x.shape[:-1], matrices, strict=True) if dim != 1 and each == 1}
    inner = weights.shape[_inner_axis(node)]
    if any(isinstance(dim, int) for dim in rows) or not isinstance(inner, int):
        return False
    return 1 < inner <= (MOST_OF_ANY_NUMBER_OF_ROWS if rows else MOST_OF_ONE_ROW)


def _matrices(node: Node) -> int:
    """The number of matrices that the weights of a product consist of."""
    return element_count(node.inputs[1].shape[:-2])


def _inner_axis(node: Node) -> int:
    """The axis of the weights along which sums are made."""
    assert isinstance(node.op, MatMul)
    rank = len(node.inputs[1].shape)
    return rank - 1 if node.op.transpose_b else rank - 2


def _fill(value: Value, axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each axis that makes this axis 8 elements long."""
    size = value.shape[axis]
    assert isinstance(size, int)
    nothing = (0,) * len(value.shape)
    return nothing, tuple(WIDTH - size if at == axis else 0 for at in range(len(value.shape)))
