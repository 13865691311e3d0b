"""Loops: ONNX's recurrent nodes through TensorRT's parser, and loops built by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import BuildError, ShapeError
from prototrt.converter.backends.readback.registry import Array
from prototrt.tests.converter.backends.readback.support import (
    Case,
    ITensor,
    Network,
    add_constant,
    add_input,
    assert_close,
    assert_like_onnxruntime,
    evaluate,
    mark_output,
    new_network,
    trt,
)
from prototrt.tests.small_nets import numbers

pytestmark = pytest.mark.trt

STEPS, BATCH, INPUTS, HIDDEN = 6, 2, 3, 4
SEQUENCE = numbers(STEPS, BATCH, INPUTS)


def recurrent(operator: str, gates: int, directions: int = 1, **attributes: Any) -> Case:
    weights = [
        numbers(directions, gates * HIDDEN, INPUTS, seed=1),
        numbers(directions, gates * HIDDEN, HIDDEN, seed=2),
        numbers(directions, 2 * gates * HIDDEN, seed=3),
    ]
    outputs = 3 if operator == "LSTM" else 2
    note = " ".join(map(str, attributes.values()))
    return Case(operator, [SEQUENCE], weights, {"hidden_size": HIDDEN, **attributes}, outputs, note)


@pytest.mark.parametrize(
    "case",
    [
        recurrent("RNN", 1),
        recurrent("RNN", 1, activations=["Relu"]),
        recurrent("GRU", 3),
        recurrent("GRU", 3, linear_before_reset=1),
        recurrent("LSTM", 4),
        recurrent("LSTM", 4, direction="reverse"),
        recurrent("LSTM", 4, directions=2, direction="bidirectional"),
    ],
    ids=str,
)
def test_recurrent_node(case: Case) -> None:
    assert_like_onnxruntime(case)


def test_sequence_lengths() -> None:
    case = recurrent("LSTM", 4, directions=2, direction="bidirectional")
    lengths = np.array([STEPS, 2], np.int32)
    assert_like_onnxruntime(Case("LSTM", [SEQUENCE], [*case.constants, lengths], case.attributes, outputs=3))


# An LSTM by hand: gates i, f, o, g in the rows of W (4H x D) and R (4H x H).
W, R, B = (
    numbers(4 * HIDDEN, INPUTS, seed=4),
    numbers(4 * HIDDEN, HIDDEN, seed=5),
    numbers(1, 4 * HIDDEN, seed=6),
)


def lstm_in_numpy(sequence: Array) -> Array:
    def sigmoid(x: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-x)))

    h = c = np.zeros((sequence.shape[1], HIDDEN))
    steps = []
    for x in sequence.astype(np.float64):
        i, f, o, g = np.split(x @ W.T + h @ R.T + B, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        steps.append(h)
    return np.stack(steps)


def lstm_network(steps: int, reverse: bool = False) -> Network:
    """h of all steps. ``steps`` -1: the number of steps of the input."""
    network = new_network()
    x = add_input(network, "x", SEQUENCE, (steps, BATCH, INPUTS))
    count = length_of(network, x) if steps == -1 else add_constant(network, steps)
    loop = network.add_loop()
    loop.add_trip_limit(count, trt.TripLimit.COUNT)
    step = loop.add_iterator(x, 0, reverse).get_output(0)
    h, c = (loop.add_recurrence(add_constant(network, np.zeros((BATCH, HIDDEN)), np.float32)) for _ in "hc")
    next_h, next_c = cell(network, step, h.get_output(0), c.get_output(0))
    h.set_input(1, next_h)
    c.set_input(1, next_c)
    kind = trt.LoopOutput.REVERSE if reverse else trt.LoopOutput.CONCATENATE
    joined = loop.add_loop_output(next_h, kind)
    joined.set_input(1, count)
    mark_output(network, joined.get_output(0), "all")
    mark_output(
        network, loop.add_loop_output(h.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0), "last"
    )
    return network


def length_of(network: Network, x: ITensor) -> ITensor:
    shape = network.add_cast(network.add_shape(x).get_output(0), trt.int32).get_output(0)
    return network.add_gather(shape, add_constant(network, 0), 0).get_output(0)


def cell(network: Network, x: ITensor, h: ITensor, c: ITensor) -> tuple[ITensor, ITensor]:
    def product(a: ITensor, weights: Array) -> ITensor:
        matrix = network.add_constant(weights.shape, weights).get_output(0)
        none, transpose = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
        return network.add_matrix_multiply(a, none, matrix, transpose).get_output(0)

    def combine(operation: str, a: ITensor, b: ITensor) -> ITensor:
        return network.add_elementwise(a, b, getattr(trt.ElementWiseOperation, operation)).get_output(0)

    def gate(k: int, kind: str) -> ITensor:
        part = network.add_slice(sums, (0, k * HIDDEN), (BATCH, HIDDEN), (1, 1)).get_output(0)
        return network.add_activation(part, getattr(trt.ActivationType, kind)).get_output(0)

    sums = combine("SUM", product(x, W), product(h, R))
    sums = combine("SUM", sums, network.add_constant(B.shape, B).get_output(0))
    i, f, o, g = gate(0, "SIGMOID"), gate(1, "SIGMOID"), gate(2, "SIGMOID"), gate(3, "TANH")
    next_c = combine("SUM", combine("PROD", f, c), combine("PROD", i, g))
    tanh_c = network.add_activation(next_c, trt.ActivationType.TANH).get_output(0)
    return combine("PROD", o, tanh_c), next_c


@pytest.mark.parametrize("steps", [STEPS, -1])
def test_lstm_by_hand(steps: int) -> None:
    found = evaluate(lstm_network(steps), x=SEQUENCE)
    expected = lstm_in_numpy(SEQUENCE)
    assert_close(found["all"], expected)
    np.testing.assert_array_equal(found["last"], found["all"][-1])


def test_lstm_backwards() -> None:
    found = evaluate(lstm_network(STEPS, reverse=True), x=SEQUENCE)
    assert_close(found["all"], lstm_in_numpy(SEQUENCE[::-1])[::-1])
    np.testing.assert_array_equal(found["last"], found["all"][0])


def test_dynamic_length_is_taken_from_the_feed() -> None:
    network = lstm_network(-1)
    for steps in (1, 3):
        found = evaluate(network, x=SEQUENCE[:steps])["all"]
        assert_close(found, lstm_in_numpy(SEQUENCE[:steps]))


def test_a_nudge_of_one_percent_is_seen() -> None:
    network = lstm_network(STEPS)
    nudged = SEQUENCE.copy()
    nudged[1] *= 1.01
    before, after = (evaluate(network, x=x)["all"] for x in (SEQUENCE, nudged))
    np.testing.assert_array_equal(before[0], after[0])
    assert np.abs(before[1:] - after[1:]).max(axis=(1, 2)).min() > 1e-4


def counting_loop(network: Network, trips: int) -> tuple[Any, ITensor]:
    """A loop with a recurrence 1, 2, 4, 8 ..."""
    loop = network.add_loop()
    loop.add_trip_limit(add_constant(network, trips), trt.TripLimit.COUNT)
    power = loop.add_recurrence(add_constant(network, 1))
    doubled = add(network, power.get_output(0), power.get_output(0))
    power.set_input(1, doubled)
    return loop, power.get_output(0)


def add(network: Network, a: ITensor, b: ITensor, operation: str = "SUM") -> ITensor:
    return network.add_elementwise(a, b, getattr(trt.ElementWiseOperation, operation)).get_output(0)


@pytest.mark.parametrize(("trips", "expected"), [(0, 1), (1, 2), (5, 32)])
def test_last_value_is_the_state_after_the_last_trip(trips: int, expected: int) -> None:
    network = new_network()
    loop, power = counting_loop(network, trips)
    mark_output(network, loop.add_loop_output(power, trt.LoopOutput.LAST_VALUE).get_output(0), "y")
    assert evaluate(network)["y"] == expected


@pytest.mark.parametrize(("kind", "expected"), [("CONCATENATE", [1, 2, 4, 8]), ("REVERSE", [8, 4, 2, 1])])
def test_joined_values(kind: str, expected: list[int]) -> None:
    network = new_network()
    loop, power = counting_loop(network, 4)
    output = loop.add_loop_output(power, getattr(trt.LoopOutput, kind))
    output.set_input(1, add_constant(network, 4))
    mark_output(network, output.get_output(0), "y")
    np.testing.assert_array_equal(evaluate(network)["y"], expected)


def test_joined_values_of_no_trip() -> None:
    network = new_network()
    loop, power = counting_loop(network, 0)
    output = loop.add_loop_output(power, trt.LoopOutput.CONCATENATE)
    output.set_input(1, add_constant(network, 0))
    mark_output(network, output.get_output(0), "y")
    y = evaluate(network)["y"]
    assert y.shape == (0,)
    assert y.dtype == np.int32


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_of_iterator_and_output(axis: int) -> None:
    network = new_network()
    x = numbers(2, 3, 4)
    loop = network.add_loop()
    trips = add_constant(network, x.shape[axis])
    loop.add_trip_limit(trips, trt.TripLimit.COUNT)
    part = loop.add_iterator(add_input(network, "x", x), axis).get_output(0)
    output = loop.add_loop_output(add(network, part, part), trt.LoopOutput.CONCATENATE, axis)
    output.set_input(1, trips)
    mark_output(network, output.get_output(0), "y")
    np.testing.assert_array_equal(evaluate(network, x=x)["y"], 2 * x)


@pytest.mark.parametrize("trips", [None, 3, 10])
def test_while_stops_before_the_trip_for_which_it_is_false(trips: int | None) -> None:
    """1, 2, 4, 8, 16 while the value is below 10, or until the other limit."""
    network = new_network()
    loop = network.add_loop()
    if trips is not None:
        loop.add_trip_limit(add_constant(network, trips), trt.TripLimit.COUNT)
    power = loop.add_recurrence(add_constant(network, 1))
    value = power.get_output(0)
    loop.add_trip_limit(add(network, value, add_constant(network, 10), "LESS"), trt.TripLimit.WHILE)
    power.set_input(1, add(network, value, value))
    mark_output(network, loop.add_loop_output(value, trt.LoopOutput.LAST_VALUE).get_output(0), "y")
    assert evaluate(network)["y"] == (8 if trips == 3 else 16)


def test_recurrences_change_together() -> None:
    """Fibonacci: each recurrence is fed by the other's value of the same trip."""
    network = new_network()
    loop = network.add_loop()
    loop.add_trip_limit(add_constant(network, 10), trt.TripLimit.COUNT)
    a, b = (loop.add_recurrence(add_constant(network, start)) for start in (0, 1))
    a.set_input(1, b.get_output(0))
    b.set_input(1, add(network, a.get_output(0), b.get_output(0)))
    mark_output(network, loop.add_loop_output(a.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0), "y")
    assert evaluate(network)["y"] == 55


@pytest.mark.parametrize("outer_from_recurrence", [True, False])
def test_nested_loops(outer_from_recurrence: bool) -> None:
    """For each x: the product of (x + 2 w) over all w, the running total of which is put out.

    The inner loop's recurrence starts from a constant or from the outer loop's iterator: in the first
    case only the inner body shows that it stands inside the outer loop.
    """
    network = new_network()
    x, w = np.array([1, 2, 3], np.float32), np.array([4, 5], np.float32)
    one = add_constant(network, 1, np.float32)
    outer = network.add_loop()
    outer.add_trip_limit(add_constant(network, 3), trt.TripLimit.COUNT)
    each_x = outer.add_iterator(add_input(network, "x", x)).get_output(0)
    inner = network.add_loop()
    inner.add_trip_limit(add_constant(network, 2), trt.TripLimit.COUNT)
    each_w = inner.add_iterator(add_input(network, "w", w)).get_output(0)
    product = inner.add_recurrence(each_x if outer_from_recurrence else one)
    factor = add(network, each_x, add(network, each_w, each_w))
    product.set_input(1, add(network, product.get_output(0), factor, "PROD"))
    after = inner.add_loop_output(product.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)
    total = outer.add_recurrence(add_constant(network, 0, np.float32))
    total.set_input(1, add(network, total.get_output(0), after))
    running = outer.add_loop_output(total.get_output(0), trt.LoopOutput.CONCATENATE)
    running.set_input(1, add_constant(network, 3))
    mark_output(network, running.get_output(0), "y")
    starts = x if outer_from_recurrence else np.ones(3)
    products = [start * (each + 8) * (each + 10) for start, each in zip(starts, x, strict=True)]
    np.testing.assert_array_equal(evaluate(network, x=x, w=w)["y"], np.cumsum([0, *products])[:3])


def test_loops_one_after_the_other() -> None:
    network = new_network()
    first, power = counting_loop(network, 3)
    eight = first.add_loop_output(power, trt.LoopOutput.LAST_VALUE).get_output(0)
    second = network.add_loop()
    second.add_trip_limit(eight, trt.TripLimit.COUNT)
    ones = second.add_recurrence(add_constant(network, 0))
    ones.set_input(1, add(network, ones.get_output(0), add_constant(network, 1)))
    mark_output(
        network, second.add_loop_output(ones.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0), "y"
    )
    assert evaluate(network)["y"] == 8


def test_iterator_past_the_end() -> None:
    network = new_network()
    x = numbers(2, 3)
    loop = network.add_loop()
    trips = add_constant(network, 3)
    loop.add_trip_limit(trips, trt.TripLimit.COUNT)
    iterator = loop.add_iterator(add_input(network, "x", x))
    iterator.name = "steps"
    output = loop.add_loop_output(iterator.get_output(0), trt.LoopOutput.CONCATENATE)
    output.set_input(1, trips)
    mark_output(network, output.get_output(0), "y")
    with pytest.raises(ShapeError) as caught:
        evaluate(network, x=x)
    assert str(caught.value) == (
        'network layer "steps" (ITERATOR): trip 2 is after the end of "x", which has shape (2, 3)\n'
        "  because the loop iterates over axis 0"
    )


def test_output_of_another_length() -> None:
    network = new_network()
    loop, power = counting_loop(network, 4)
    output = loop.add_loop_output(power, trt.LoopOutput.CONCATENATE)
    output.name = "powers"
    output.set_input(1, add_constant(network, 5))
    mark_output(network, output.get_output(0), "y")
    with pytest.raises(ShapeError) as caught:
        evaluate(network)
    assert str(caught.value) == (
        'network layer "powers" (LOOP_OUTPUT): the loop made 4 trips, but its output is to be 5 long'
    )


def test_recurrence_without_a_back_edge() -> None:
    network = new_network()
    loop = network.add_loop()
    loop.add_trip_limit(add_constant(network, 2), trt.TripLimit.COUNT)
    recurrence = loop.add_recurrence(add_constant(network, 1))
    recurrence.name = "state"
    mark_output(
        network, loop.add_loop_output(recurrence.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0), "y"
    )
    with pytest.raises(BuildError) as caught:
        evaluate(network)
    assert str(caught.value) == (
        'network layer "state" (RECURRENCE): has no second input, the value for the next trip'
    )


def test_output_from_inside_a_loop() -> None:
    network = new_network()
    _, power = counting_loop(network, 4)
    mark_output(network, power, "y")
    with pytest.raises(BuildError) as caught:
        evaluate(network)
    assert str(caught.value) == (
        'network output "y": stands inside a loop, whose tensors cannot be outputs\n'
        "  fix: bring it out through an output of the loop"
    )
