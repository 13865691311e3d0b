"""Values inside a graph as outputs of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.converter.checking.calibration.collecting import expose
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Graph
from prototrt.surgery.ops import ADD, MULTIPLY
from prototrt.surgery.recurrent.cells import Step, scan
from prototrt.tests.small_nets import op, rewritten

X = np.array([[1], [2], [3]], np.float32)
WAYS = ("reference", "onnx")


def sums(*, reverse: bool = False, nested: bool = False) -> Graph:
    """``total`` after each step over x (3, 1); with ``nested``, each of three outer steps adds all of x."""
    build = Builder()
    x, zero = build.input("x", (3, 1)), build.input("zero", (1,))

    def add(body: Builder, here: Sequence[Value], states: Sequence[Value]) -> Step:
        total = body.add(ADD, states[0], here[0], hint="total")
        return Step([total], [body.add(MULTIPLY, total, total, hint="square")])

    def add_all(body: Builder, here: Sequence[Value], states: Sequence[Value]) -> Step:
        return Step(scan(body, add, [x], states).states, [])

    made = scan(build, add_all if nested else add, [x], [zero], reverse=reverse)
    return build.graph("sums", [*made.states, *made.outputs])


def name_of(graph: Graph, hint: str) -> str:
    return next(name for name in names_in(graph) if name.endswith(f"_{hint}"))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("graph", "hint", "expected"),
    [
        (sums(), "total", [[1], [3], [6]]),
        (sums(), "state", [[0], [1], [3]]),  # a body's input: the total before the step
        (sums(), "square", [[1], [9], [36]]),  # an output of the body already
        (sums(reverse=True), "total", [[6], [5], [3]]),  # written where it reads
        (sums(nested=True), "total", [[[1], [3], [6]], [[7], [9], [12]], [[13], [15], [18]]]),
    ],
    ids=["inside", "input", "output", "backwards", "nested"],
)
def test_values_of_all_steps(graph: Graph, hint: str, expected: object, on: Way) -> None:
    wanted = name_of(graph, hint)
    shown = expose(graph, [wanted])
    shown.graph.verify()
    results = prototrt.Session(shown.graph, on=on).run({"x": X, "zero": np.zeros(1, np.float32)})
    assert list(shown.outputs) == [wanted]
    np.testing.assert_array_equal(results[shown.outputs[wanted]], np.array(expected, np.float32))


def test_a_value_between_two_layers_is_an_output_under_its_own_name() -> None:
    graph = rewritten(op("AbsVal", tops=["a"]) + op("TanH", bottoms=["a"]), {"x": (2,)})
    shown = expose(graph, ["a"])
    assert shown.outputs == {"a": "a"}
    results = prototrt.Session(shown.graph).run({"x": np.array([-2, 3])})
    np.testing.assert_array_equal(results["a"], [2, 3])


def test_states_stay_the_last_outputs() -> None:
    """The output of a recurrent pair feeds state back: a session does not give it to its caller."""
    lstm = op("LSTM", 'recurrent_param { num_output: 2 weight_filler { type: "gaussian" } }', ["x", "c"])
    graph = rewritten(lstm, {"x": (2, 1, 3), "c": (2, 1)}, require_weights=False)
    state = graph.state_outputs[0].name
    shown = expose(graph, [state])
    shown.graph.verify()
    assert shown.graph.state_outputs == graph.state_outputs
    feeds = {"x": np.ones((2, 1, 3)), "c": np.ones((2, 1))}
    session = prototrt.Session(shown.graph)
    copied = session.run(feeds)[shown.outputs[state]]
    np.testing.assert_array_equal(copied, session.state[graph.state_inputs[0].name])


@pytest.mark.parametrize("wanted", [[], ["x"], ["nobody"]], ids=["nothing", "an input", "no value"])
def test_nothing_to_expose_leaves_the_very_graph(wanted: list[str]) -> None:
    graph = rewritten(op("TanH"), {"x": (2,)})
    shown = expose(graph, wanted)
    assert shown.graph is graph
    assert not shown.outputs
