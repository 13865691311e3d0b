"""RecurrentParamSet: cuDNN's packed weights out of single matrices and biases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt import Way
from prototrt.surgery.ir import Array
from prototrt.tests.caffe2_nets import check, operator, refusal
from prototrt.tests.small_nets import WAYS, numbers

T, N, D, H = 3, 2, 4, 5
WORDS = ("input_gate", "forget_gate", "cell", "output_gate")
COUNTS = {"lstm": 4, "gru": 3}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def recurrent(mode: str) -> Any:
    outputs = ["y", "h_last", "c_last", "scratch", "dropout"]
    return operator("Recurrent", ["x", "h0", "c0", "packed"], outputs, **settings(mode))


def settings(mode: str) -> dict[str, Any]:
    return {"hidden_size": H, "num_layers": 1, "bidirectional": 0, "rnn_mode": mode, "input_mode": "linear"}


def parameter(mode: str, source: str, kind: str, values: str) -> Any:
    return operator(
        "RecurrentParamSet",
        ["x", "packed", values],
        ["packed"],
        layer=0,
        input_type=source,
        param_type=kind,
        **settings(mode),
    )


def packed(size: int) -> Any:
    return operator("ConstantFill", (), ["packed"], shape=[size], value=0.0)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("mode", COUNTS)
def test_numbers_of_the_gates(mode: str, on: Way) -> None:
    """Caffe2 counts 0 to 3 for the words and 4 more for "recurrent"; cuDNN counts the gates of its mode."""
    count = COUNTS[mode]
    columns = [D] * count + [H] * count
    matrices = [numbers(H, width, seed=10 + number) for number, width in enumerate(columns)]
    biases = [numbers(H, seed=30 + number) for number in range(2 * count)]
    weights: dict[str, Array] = {}
    fills = [packed(sum(matrix.size + H for matrix in matrices))]
    for number, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
        source, word = ("input", "recurrent")[number // 4], WORDS[number % 4]
        weights |= {f"w{number}": matrix, f"b{number}": bias}
        fills += [
            parameter(mode, source, f"{word}_w", f"w{number}"),
            parameter(mode, source, f"{word}_b", f"b{number}"),
        ]
    x, h0, c0 = numbers(T, N, D), numbers(1, N, H, seed=1), numbers(1, N, H, seed=2)
    h, c, rows = h0[0], c0[0], []
    for row in x:
        inner = [row @ matrices[gate].T + biases[gate] for gate in range(count)]
        again = [h @ matrices[count + gate].T + biases[count + gate] for gate in range(count)]
        if mode == "lstm":
            i, f, g, o = (a + b for a, b in zip(inner, again, strict=True))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            r, z = sigmoid(inner[0] + again[0]), sigmoid(inner[1] + again[1])
            h = (1 - z) * np.tanh(inner[2] + r * again[2]) + z * h
        rows.append(h)
    inputs = {"x": x, "h0": h0, "c0": c0}
    expected = {"y": np.stack(rows), "h_last": h[None], **({"c_last": c[None]} if mode == "lstm" else {})}
    check(recurrent(mode), inputs, weights, expected, on, fills=fills)


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (
            "recurrent",
            "cell_w",
            "the recurrent cell_w has the number 6, expected less than 6\n"
            "  because a gru has 3 gates of the input and 3 of the recurrence\n"
            "  fix: give the init net of this predict net",
        ),
        (
            "input",
            "reset_gate_w",
            'input_type is "input" and param_type "reset_gate_w", expected input or recurrent, and one of'
            " input_gate, forget_gate, cell, output_gate with _w or _b\n"
            "  fix: give the init net of this predict net",
        ),
        (
            "inputs",
            "cell_w",
            'input_type is "inputs" and param_type "cell_w", expected input or recurrent, and one of'
            " input_gate, forget_gate, cell, output_gate with _w or _b\n"
            "  fix: give the init net of this predict net",
        ),
    ],
)
def test_what_there_is_not(source: str, kind: str, message: str) -> None:
    fills = [packed(200), parameter("gru", source, kind, "w")]
    inputs = {"x": numbers(T, N, D), "h0": numbers(1, N, H), "c0": numbers(1, N, H)}
    found = refusal(recurrent("gru"), inputs, {"w": numbers(H, D)}, fills=fills)
    assert found == f"operator 2 (RecurrentParamSet): {message}"
