"""Layers in place on blobs that share memory, against Caffe's equations worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.small_nets import WAYS, has_engine, numbers, rewritten, run

H, D = 3, 2
WEIGHTS = {"lstm/0": numbers(4 * H, D), "lstm/1": numbers(4 * H, seed=1), "lstm/2": numbers(4 * H, H, seed=2)}
LSTM = (
    'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h"'
    f" recurrent_param {{ num_output: {H} }} }}\n"
)
EXPOSED = (
    'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" bottom: "h0" bottom: "c0"'
    ' top: "h" top: "hT" top: "cT"'
    f" recurrent_param {{ num_output: {H} expose_hidden: true }} }}\n"
)
HALVE = 'layer { name: "halve" type: "Power" bottom: "h" top: "h" power_param { scale: 0.5 shift: 1 } }\n'
FLAT = 'layer { name: "flat" type: "Flatten" bottom: "h" top: "f" }\n'
DROP = 'layer { name: "drop" type: "Dropout" bottom: "h" top: "h" }\n'


def halved(h: Array) -> Array:
    return 0.5 * h + 1


def step(x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """One step of an LSTM, for one stream that continues."""
    gates = WEIGHTS["lstm/0"] @ x + WEIGHTS["lstm/1"] + WEIGHTS["lstm/2"] @ h
    i, f, o = (1 / (1 + np.exp(-gates[k * H : (k + 1) * H])) for k in range(3))
    c = f * c + i * np.tanh(gates[3 * H :])
    return o * np.tanh(c), c


def calls(layers: str, on: Way, steps: int = 1, count: int = 3) -> tuple[list[Array], list[Array]]:
    """The inputs and the outputs of several calls of a net without given states."""
    graph = rewritten(layers, {"x": (steps, 1, D), "cont": (steps, 1)}, WEIGHTS)
    session = prototrt.Session(graph, on=on)
    inputs = [numbers(steps, 1, D, seed=10 + call) for call in range(count)]
    ones = np.ones((steps, 1), np.float32)
    return inputs, [next(iter(session.run({"x": x, "cont": ones}).values())) for x in inputs]


@pytest.mark.parametrize("on", WAYS)
def test_one_step_carries_what_was_written_in_place(on: Way) -> None:
    inputs, outputs = calls(LSTM + HALVE, on)
    h, c = np.zeros(H), np.zeros(H)
    for x, output in zip(inputs, outputs, strict=True):
        h, c = step(x[0, 0], h, c)
        h = halved(h)
        np.testing.assert_allclose(output[0, 0], h, 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_every_layer_in_place_counts(on: Way) -> None:
    again = HALVE.replace('"halve"', '"again"')
    inputs, outputs = calls(LSTM + HALVE + DROP + again, on)
    h, c = np.zeros(H), np.zeros(H)
    for x, output in zip(inputs, outputs, strict=True):
        h, c = step(x[0, 0], h, c)
        h = halved(halved(h))
        np.testing.assert_allclose(output[0, 0], h, 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_a_reshape_shares_the_memory_of_its_bottom(on: Way) -> None:
    flat = 'layer { name: "flat" type: "Flatten" bottom: "h" top: "f" }\n'
    inputs, outputs = calls(LSTM + flat + HALVE.replace('"h"', '"f"'), on)
    h, c = np.zeros(H), np.zeros(H)
    for x, output in zip(inputs, outputs, strict=True):
        h, c = step(x[0, 0], h, c)
        h = halved(h)
        np.testing.assert_allclose(output[0], h, 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_a_layer_not_in_place_leaves_the_state_alone(on: Way) -> None:
    inputs, outputs = calls(LSTM + HALVE.replace('top: "h"', 'top: "y"'), on)
    h, c = np.zeros(H), np.zeros(H)
    for x, output in zip(inputs, outputs, strict=True):
        h, c = step(x[0, 0], h, c)
        np.testing.assert_allclose(output[0, 0], halved(h), 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_two_steps_are_copied(on: Way) -> None:
    """A Concat of two blobs copies them: the state is what it was."""
    inputs, outputs = calls(LSTM + HALVE, on, steps=2)
    h, c = np.zeros(H), np.zeros(H)
    for x, output in zip(inputs, outputs, strict=True):
        for t in range(2):
            h, c = step(x[t, 0], h, c)
            np.testing.assert_allclose(output[t, 0], halved(h), 1e-5, 1e-6)


def test_dropout_in_place_costs_nothing() -> None:
    shapes = {"x": (1, 1, D), "cont": (1, 1)}
    plain, dropped = (rewritten(layers, shapes, WEIGHTS) for layers in (LSTM, LSTM + DROP))
    assert len(dropped.nodes) == len(plain.nodes) + 1  # the copy that the output is called after


EXPOSED_SHAPES = {"x": (1, 1, D), "cont": (1, 1), "h0": (1, 1, H), "c0": (1, 1, H)}


def exposed_inputs() -> dict[str, Array]:
    return {
        name: numbers(*shape, seed=index) for index, (name, shape) in enumerate(EXPOSED_SHAPES.items(), 20)
    } | {"cont": np.ones((1, 1), np.float32)}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("written", "other"), [("h", "hT"), ("hT", "h")])
def test_exposed_tops_of_one_step_share_memory(on: Way, written: str, other: str) -> None:
    inputs = exposed_inputs()
    results = run(EXPOSED + HALVE.replace('"h"', f'"{written}"'), inputs, WEIGHTS, on)
    h, c = step(inputs["x"][0, 0], inputs["h0"][0, 0], inputs["c0"][0, 0])
    for name, expected in {written: halved(h), other: halved(h), "cT": c}.items():
        np.testing.assert_allclose(results[name][0, 0], expected, 1e-5, 1e-6, err_msg=name)


ANY_STEPS = [
    LSTM + HALVE,
    LSTM + HALVE + DROP + HALVE.replace('"halve"', '"again"'),
    LSTM + FLAT + HALVE.replace('"h"', '"f"'),
    LSTM + DROP,
    LSTM + HALVE.replace('top: "h"', 'top: "other"'),
    EXPOSED + HALVE,
    EXPOSED + HALVE.replace('"h"', '"hT"'),
]
"""Nets whose number of steps varies: one step shares memory with the state, more do not."""


def of_any_steps(layers: str) -> Graph:
    shapes = {name: shape for name, shape in EXPOSED_SHAPES.items() if "h0" in layers or len(name) != 2}
    ranges = [{"x": (steps, 1, D), "cont": (steps, 1)} for steps in (1, 5)]
    return rewritten(
        layers, shapes, WEIGHTS, min_shapes=ranges[0], opt_shapes=ranges[1], max_shapes=ranges[1]
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("layers", ANY_STEPS)
def test_in_place_where_the_number_of_steps_varies(layers: str, on: Way) -> None:
    """One step, two, and again one: each as the net of that number of steps, from the state before."""
    graph = of_any_steps(layers)
    assert not [warning for warning in graph.warnings if "the steps of a sequence" not in warning]
    session, carried = prototrt.Session(graph, on=on), dict[str, Array]()
    for steps in (1, 2, 1, 5, 1):
        feeds = {"x": numbers(steps, 1, D, seed=steps), "cont": np.ones((steps, 1), np.float32)}
        if "h0" in layers:
            feeds |= {"h0": numbers(1, 1, H, seed=6), "c0": numbers(1, 1, H, seed=7)}
        fixed = rewritten(layers, {name: array.shape for name, array in feeds.items()}, WEIGHTS)
        of_steps = prototrt.Session(fixed)
        of_steps.set_state(carried)
        wanted, found = of_steps.run(feeds), session.run(feeds)
        carried = of_steps.get_state()
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, 1e-5, 1e-6, err_msg=f"{name} at {steps} steps")


@pytest.mark.trt
def test_in_place_where_the_number_of_steps_varies_builds() -> None:
    assert has_engine(of_any_steps(LSTM + HALVE))


@pytest.mark.parametrize("on", WAYS)
def test_who_read_before_has_read_the_old(on: Way) -> None:
    """A copy of hT before h is written in place, and one after."""
    before = 'layer { name: "before" type: "Power" bottom: "hT" top: "b" }\n'
    inputs = exposed_inputs()
    results = run(
        EXPOSED + before + HALVE + before.replace("before", "after").replace('"b"', '"a"'),
        inputs,
        WEIGHTS,
        on,
    )
    h, _ = step(inputs["x"][0, 0], inputs["h0"][0, 0], inputs["c0"][0, 0])
    np.testing.assert_allclose(results["b"][0, 0], h, 1e-5, 1e-6)
    np.testing.assert_allclose(results["a"][0, 0], halved(h), 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_top_of_an_rnn_is_its_own(on: Way) -> None:
    """It is made of h, and h lies elsewhere."""
    weights = {
        "rnn/0": numbers(H, D),
        "rnn/1": numbers(H, seed=1),
        "rnn/2": numbers(H, H, seed=2),
        "rnn/3": numbers(H, H, seed=3),
        "rnn/4": numbers(H, seed=4),
    }
    layers = LSTM.replace("lstm", "rnn").replace("LSTM", "RNN")
    session = prototrt.Session(rewritten(layers + HALVE, {"x": (1, 1, D), "cont": (1, 1)}, weights), on=on)
    h = np.zeros(H)
    for call in range(3):
        x = numbers(1, 1, D, seed=30 + call)
        result = session.run({"x": x, "cont": np.ones((1, 1), np.float32)})["h"]
        h = np.tanh(weights["rnn/0"] @ x[0, 0] + weights["rnn/1"] + weights["rnn/2"] @ h)
        o = np.tanh(weights["rnn/3"] @ h + weights["rnn/4"])
        np.testing.assert_allclose(result[0, 0], halved(o), 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_a_flat_input_written_in_place_changes_the_input(on: Way) -> None:
    layers = (
        'layer { name: "flat" type: "Flatten" bottom: "x" top: "f" }\n'
        'layer { name: "relu" type: "ReLU" bottom: "f" top: "f" }\n'
        'layer { name: "copy" type: "Power" bottom: "x" top: "y" power_param { shift: 1 } }'
    )
    x = numbers(1, 2, 3)
    results = run(layers, {"x": x}, on=on)
    np.testing.assert_allclose(results["y"], np.maximum(x, 0) + 1)
    np.testing.assert_allclose(results["f"], np.maximum(x, 0).reshape(1, 6))
