"""A cell becomes a Scan: states, sequences, what is read from outside, and the direction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Graph
from prototrt.surgery.ops import ADD, MULTIPLY, Identity, Scan, ScanInputs, ScanOutputs
from prototrt.surgery.recurrent.cells import Step, scan

STEPS = np.array([[1], [2], [3], [4]], np.float32)


def decaying_sum(reverse: bool) -> Graph:
    """h_t = f h_{t-1} + x_t, where f is no constant and stands outside of the loop."""
    build = Builder()
    x, factor, h = build.input("x", (4, 1)), build.input("factor", (1,)), build.input("h", (1,))

    def cell(body: Builder, now: Sequence[Value], states: Sequence[Value]) -> Step:
        new = body.add(ADD, body.add(MULTIPLY, states[0], factor), now[0])
        return Step([new], [new])

    step = scan(build, cell, [x], [h], reverse=reverse)
    return build.graph("sum", [*step.states, *step.outputs])


@pytest.mark.parametrize(
    ("reverse", "last", "all_steps"),
    [(False, [26], [[1], [4], [11], [26]]), (True, [49], [[49], [24], [11], [4]])],
    ids=["forwards", "backwards"],
)
def test_scan_runs_the_cell(reverse: bool, last: list[float], all_steps: list[list[float]]) -> None:
    graph = decaying_sum(reverse)
    graph.verify()
    results = graph.evaluate(STEPS, np.array([2], np.float32), np.zeros(1, np.float32))
    np.testing.assert_array_equal(results[0], last)
    np.testing.assert_array_equal(results[1], all_steps, "written at the place that is read")


def test_body_is_closed() -> None:
    (node,) = decaying_sum(False).nodes
    assert isinstance(node.op, Scan)
    node.op.body.verify()
    assert [value.name for value in node.inputs] == ["h", "x", "factor"]
    assert [value.name for value in node.op.body.inputs] == ["__state", "__step", "__invariant"]


def test_operands_have_the_same_role_outside_and_inside() -> None:
    """Two states, one sequence and two invariants; two states and one stacked output."""
    build = Builder()
    h, c, x = build.input("h", (1,)), build.input("c", (2,)), build.input("x", (4, 3))
    invariants = build.input("a", (4,)), build.input("b", (5,))

    def cell(body: Builder, now: Sequence[Value], states: Sequence[Value]) -> Step:
        read = [body.add(Identity(), value) for value in (*invariants, *now)]
        return Step(states, [read[0]])

    scan(build, cell, [x], [h, c])
    (node,) = build.nodes
    assert isinstance(node.op, Scan)
    assert node.op.named_inputs(node.inputs) == ScanInputs((h, c), (x,), invariants)
    inside = node.op.named_inputs([value.shape for value in node.op.body.inputs])
    assert inside == ScanInputs(((1,), (2,)), ((3,),), ((4,), (5,)))
    written = node.op.named_outputs([value.shape for value in node.outputs])
    assert written == ScanOutputs(((1,), (2,)), ((4, 4),))
    assert (*node.op.named_inputs(node.inputs), *node.op.named_outputs(node.outputs)) == (
        *node.inputs,
        *node.outputs,
    )
    assert node.op.steps([value.shape for value in node.inputs]) == 4


def test_constants_stay_where_they_are() -> None:
    build = Builder()
    x, h = build.input("x", (4, 1)), build.input("h", (1,))
    half = build.constant(np.array([0.5], np.float32))

    def cell(body: Builder, now: Sequence[Value], states: Sequence[Value]) -> Step:
        return Step([body.add(MULTIPLY, body.add(ADD, now[0], states[0]), half)], [])

    scan(build, cell, [x], [h])
    (node,) = build.nodes
    assert half not in node.inputs
    assert node.inputs == (h, x)
