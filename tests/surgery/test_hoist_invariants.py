"""What a Scan's body computes without its state is computed before it; the numbers stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Graph, Op
from prototrt.surgery.ops import ADD, Concat, MatMul, Scan, Slice, Softmax, TanH, Transpose
from prototrt.surgery.passes.hoist_invariants import hoist_invariants
from prototrt.surgery.recurrent.cells import Step, StepFunction, scan
from prototrt.tests.small_nets import numbers

T, N, H = 5, 2, 3


def graph_of(cell: StepFunction) -> Graph:
    """A Scan over x (T, 1, N, H) from h_0 (1, N, H)."""
    build = Builder()
    x, h = build.input("x", (T, 1, N, H)), build.input("h_0", (1, N, H))
    end = scan(build, cell, [x], [h])
    return build.graph("net", [*end.outputs, *end.states])


def body_ops(graph: Graph) -> list[type[Op]]:
    (scanned,) = [node.op for node in graph.nodes if isinstance(node.op, Scan)]
    return [type(node.op) for node in scanned.body.nodes]


def product_of_x(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
    p = body.product(inputs[0], body.constant(numbers(H, H)))
    h = body.add(TanH(), body.add(ADD, p, states[0]))
    return Step([h], [h])


def parts_of_x(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
    x = body.add(Transpose((0, 2, 1)), inputs[0])
    x = body.add(Transpose((0, 2, 1)), body.add(Softmax(1), x))
    cut = [body.add(Slice(2, start, 1), x) for start in (2, 1, 0)]
    y = body.add(Concat(2), *cut)
    y = body.reshape(body.reshape(y, (N, H)), (1, N, H))
    h = body.add(ADD, y, states[0])
    return Step([h], [h])


def all_of_the_state(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
    h = body.product(body.add(ADD, inputs[0], states[0]), body.constant(numbers(H, H)))
    return Step([h], [h])


def what_it_returns(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
    return Step([states[0]], [body.add(TanH(), inputs[0])])


@pytest.mark.parametrize(
    ("cell", "left"),
    [(product_of_x, [type(ADD), TanH]), (parts_of_x, [type(ADD)])],
    ids=["product", "moved"],
)
def test_what_does_not_look_at_the_state_is_hoisted(cell: StepFunction, left: list[type[Op]]) -> None:
    before = graph_of(cell)
    after = hoist_invariants(before)
    after.verify()
    assert body_ops(after) == left
    feeds = [numbers(T, 1, N, H), numbers(1, N, H)]
    for found, expected in zip(after.evaluate(*feeds), before.evaluate(*feeds), strict=True):
        np.testing.assert_allclose(found, expected, 1e-6, 1e-6)


def test_one_product_has_all_steps_as_rows() -> None:
    after = hoist_invariants(graph_of(product_of_x))
    (product,) = [node for node in after.nodes if isinstance(node.op, MatMul)]
    assert product.outputs[0].shape == (T, N, H)


def test_what_is_the_same_in_every_step_is_computed_once() -> None:
    build = Builder()
    x, h, v = build.input("x", (T, N, H)), build.input("h_0", (N, H)), build.input("v", (N, H))

    def cell(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        new = body.add(ADD, body.add(ADD, inputs[0], states[0]), body.add(TanH(), v))
        return Step([new], [new])

    after = hoist_invariants(build.graph("net", scan(build, cell, [x], [h]).outputs))
    after.verify()
    assert body_ops(after) == [type(ADD), type(ADD)]
    (once,) = [node for node in after.nodes if isinstance(node.op, TanH)]
    assert once.outputs[0].shape == (N, H)


@pytest.mark.parametrize("cell", [all_of_the_state, what_it_returns])
def test_left_alone(cell: StepFunction) -> None:
    before = graph_of(cell)
    assert hoist_invariants(before) is before


def test_a_broadcast_that_grows_stays_inside() -> None:
    large = (1, 6000, N * H)
    build = Builder()
    x, h, v = build.input("x", (T, 1, 1, N * H)), build.input("h_0", large), build.input("v", large)

    def cell(body: Builder, inputs: Sequence[Value], states: Sequence[Value]) -> Step:
        new = body.add(ADD, body.add(ADD, v, inputs[0]), states[0])
        return Step([new], [new])

    before = build.graph("net", scan(build, cell, [x], [h]).outputs)
    assert hoist_invariants(before) is before


def test_without_a_scan() -> None:
    build = Builder()
    before = build.graph("net", [build.add(TanH(), build.input("x", (1,)))])
    assert hoist_invariants(before) is before
