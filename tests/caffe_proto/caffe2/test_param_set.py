"""RecurrentParamSet and RecurrentParamGet: single matrices and biases of cuDNN's packed weights."""

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


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("where", ["predict net", "init net"])
@pytest.mark.parametrize("mode", COUNTS)
def test_a_matrix_and_a_bias_are_set_and_read_back(mode: str, where: str, on: Way) -> None:
    """In cuDNN's order: all matrices, then all biases. The second matrix is at H D, the first bias behind all."""
    count = COUNTS[mode]
    matrices = count * H * (D + H)
    before = numbers(matrices + 2 * count * H, seed=3)
    matrix, bias = numbers(H, D, seed=4), numbers(H, seed=5)
    sets = [
        parameter(mode, "input", "forget_gate_w", "matrix"),
        parameter(mode, "input", "input_gate_b", "bias"),
    ]
    gets = [
        operator(
            "RecurrentParamGet",
            ["x", "packed"],
            [name],
            layer=0,
            input_type="input",
            param_type=kind,
            **settings(mode),
        )
        for name, kind in (
            ("first", "input_gate_w"),
            ("second", "forget_gate_w"),
            ("first_bias", "input_gate_b"),
        )
    ]
    outputs = [
        operator("Copy", [name], [f"{name}_copy"]) for name in ("first", "second", "first_bias", "packed")
    ]
    after = before.copy()
    after[H * D : 2 * H * D], after[matrices : matrices + H] = matrix.reshape(-1), bias
    expected = {
        "first_copy": before[: H * D].reshape(1, H, D),
        "second_copy": matrix[None],
        "first_bias_copy": bias.reshape(1, H, 1),
        "packed_copy": after,
    }
    weights = {"packed": before, "matrix": matrix, "bias": bias}
    fills = [*sets, *gets] if where == "init net" else []
    operators = [*([] if fills else [*sets, *gets]), *outputs, operator("Copy", ["x"], ["shown"])]
    check(operators, {"x": numbers(T, N, D)}, weights, expected, on, fills=fills)


@pytest.mark.parametrize(
    ("size", "shape", "layer", "message"),
    [
        (
            200,
            (H, D),
            2,
            ": layer is 2, expected 0 to 0\n  fix: correct the arguments, or export the net again",
        ),
        (
            30,
            (H, D),
            0,
            ', input "packed": holds 30 numbers, expected at least 165\n'
            "  because D is 4, H 5, with 1 layers in 1 directions\n  fix: give the init net of this predict net",
        ),
        (
            200,
            (H, H),
            0,
            ', input "w": has the shape (5, 5), expected (5, 4)\n  fix: give the init net of this predict net',
        ),
    ],
)
def test_what_does_not_fit(size: int, shape: tuple[int, ...], layer: int, message: str) -> None:
    arguments = {**settings("gru"), "layer": layer, "input_type": "input", "param_type": "cell_w"}
    access = operator("RecurrentParamSet", ["x", "packed", "w"], ["new"], **arguments)
    weights = {"packed": numbers(size), "w": numbers(*shape)}
    found = refusal([access, operator("Copy", ["new"])], {"x": numbers(T, N, D)}, weights)
    assert found == f"operator 0 (RecurrentParamSet){message}"
