"""Products that are joined or scaled late, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ops import ADD, MULTIPLY, MatMul, Scan, TanH
from prototrt.surgery.passes.scan_bodies import scale_products
from prototrt.surgery.passes.share_products import share_products
from prototrt.surgery.recurrent.cells import Step, scan
from prototrt.tests.small_nets import numbers


@pytest.mark.parametrize(("bias", "products"), [(numbers(1, 1, 3), 1), (numbers(1, 1, 1), 2)])
def test_sums_are_shared_only_if_each_column_has_its_own(bias: Array, products: int) -> None:
    """A number for all columns cannot stand beside those of the other direction."""
    graph = both_directions(bias)
    after = share_products(graph)
    after.verify()
    assert sum(isinstance(node.op, MatMul) for node in after.nodes) == products
    assert_equal(after, graph, numbers(4, 2, 5))


def both_directions(bias: Array) -> Graph:
    """``Scan(x W + b)`` forwards and backwards."""
    build = Builder()
    x = build.input("x", (4, 2, 5))
    results: list[Value] = []
    for seed in (1, 2):
        product = build.product(x, build.constant(numbers(3, 5, seed=seed)))
        total = build.add(ADD, product, build.constant(bias))
        start = build.constant(np.zeros((2, 3), np.float32))
        results += scan(build, summing, [total], [start], reverse=seed == 2).outputs
    return build.graph("net", results)


def summing(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
    h = body.add(TanH(), body.add(ADD, inputs[0], states[0]))
    return Step([h], [h])


def test_a_scan_of_which_one_result_is_read_stays_beside_a_scaled_product() -> None:
    """Its last state is not read, its outputs are."""

    def outer(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        scaled = body.add(MULTIPLY, states[0], inputs[1])
        product = body.product(scaled, body.constant(numbers(3, 3, seed=1)))
        inner = scan(body, summing, [inputs[0]], [product])
        h = body.reshape(inner.outputs[0], (2, 3))
        return Step([h], [h])

    build = Builder()
    x, factor = build.input("x", (4, 1, 2, 3)), build.input("d", (4, 2, 1))
    end = scan(build, outer, [x, factor], [build.constant(numbers(2, 3, seed=2))])
    graph = build.graph("net", end.outputs)
    after = scale_products(graph)
    assert after is not graph
    assert_equal(after, graph, numbers(4, 1, 2, 3), numbers(4, 2, 1))
    (node,) = (node for node in after.nodes if isinstance(node.op, Scan))
    assert isinstance(node.op, Scan)
    node.op.body.verify()


def assert_equal(after: Graph, before: Graph, *feeds: Array) -> None:
    for one, other in zip(after.evaluate(*feeds), before.evaluate(*feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
