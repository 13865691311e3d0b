"""Operators of Caffe2 that look at one element at a time, or broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prototrt import Way
from prototrt.surgery.ir import Array
from prototrt.tests.caffe2_nets import check, operator, refusal
from prototrt.tests.small_nets import WAYS, numbers

FUNCTIONS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "GT": np.greater,
    "LE": np.less_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "GE": np.greater_equal,
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(
    ("shape", "arguments", "stretched"),
    [
        ((4,), {}, (1, 1, 4)),
        ((4,), {"axis_str": ""}, (1, 1, 4)),
        ((3, 4), {"axis": -1}, (1, 3, 4)),
        ((2,), {"axis": 0}, (2, 1, 1)),
        ((2, 3), {"axis": 0}, (2, 3, 1)),
        ((3,), {"axis_str": "C"}, (1, 3, 1)),
        ((3, 1), {"axis": 1}, (1, 3, 1)),
        ((1, 1, 1, 1), {}, (1, 1, 1)),
    ],
    ids=str,
)
def test_legacy_broadcast(
    kind: str, shape: tuple[int, ...], arguments: dict[str, Any], stretched: tuple[int, ...], on: Way
) -> None:
    function = FUNCTIONS[kind]
    x = np.round(numbers(2, 3, 4) * 2) / 2
    b = np.sign(numbers(*shape, seed=1)).astype(np.float32)
    wanted = function(x, b.reshape(stretched))
    operators = [
        operator(kind, ["x", "b"], ["z"], broadcast=1, **arguments),
        operator("Cast", ["z"], to="float"),
    ]
    check(operators, {"x": x}, {"b": b}, {"y": wanted.astype(np.float32)}, on)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"axis_str": "K"},
            'operator 0 (Add): axis_str is "K", expected one letter of the order "NCHW"\n'
            "  fix: correct the arguments, or export the net again",
        ),
        (
            {"axis": 2},
            'operator 0 (Add), input "b": shape is (3, 4),'
            " expected the shape of the first input, (2, 3, 4), from axis 2 on\n"
            "  fix: give the shapes and the init net that belong to this predict net",
        ),
    ],
)
def test_legacy_broadcast_refuses(arguments: dict[str, Any], message: str) -> None:
    add = operator("Add", ["x", "b"], broadcast=1, **arguments)
    assert refusal(add, {"x": numbers(2, 3, 4)}, {"b": numbers(3, 4)}) == message


PASSED_ON = [
    *("Alias", "CopyCPUToGPU", "CopyGPUToCPU", "CopyOnDeviceLike"),
    *("EnsureCPUOutput", "EnsureDense", "StopGradient"),
]


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", PASSED_ON)
def test_what_only_passes_a_blob_on(kind: str, on: Way) -> None:
    x = numbers(2, 3)
    operators = [operator(kind, outputs=["same"]), operator("Negative", ["same"])]
    check(operators, {"x": x}, {}, {"y": -x}, on)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("Abs", {}, np.abs),
        ("Negative", {}, np.negative),
        ("Exp", {}, np.exp),
        ("Softsign", {}, lambda x: x / (1 + abs(x))),
        ("Sqr", {}, np.square),
        ("Swish", {}, lambda x: x / (1 + np.exp(-x))),
        ("Elu", {}, lambda x: np.where(x > 0, x, np.exp(x) - 1)),
        ("Elu", {"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
        ("LeakyRelu", {}, lambda x: np.where(x > 0, x, 0.01 * x)),
        ("LeakyRelu", {"alpha": 0.25}, lambda x: np.where(x > 0, x, 0.25 * x)),
        ("Flatten", {}, lambda x: x.reshape(2, 12)),
        ("Flatten", {"axis": 2}, lambda x: x.reshape(6, 4)),
        ("FlattenToVec", {}, np.ravel),
    ],
)
def test_functions_of_one_blob(
    kind: str, arguments: dict[str, Any], expected: Callable[[Array], Array], on: Way
) -> None:
    x = numbers(2, 3, 4)
    check(operator(kind, **arguments), {"x": x}, {}, {"y": expected(x)}, on)


@pytest.mark.parametrize("on", WAYS)
def test_root(on: Way) -> None:
    x = np.abs(numbers(2, 3))
    check(operator("Sqrt"), {"x": x}, {}, {"y": x**0.5}, on)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("kind", "expected"), [("And", np.logical_and), ("Or", np.logical_or), ("Not", lambda a, b: ~a)]
)
def test_truth_values(kind: str, expected: Callable[[Array, Array], Array], on: Way) -> None:
    """All four pairs of truth values."""
    a, b = np.array([1, 1, -1, -1], np.float32), np.array([1, -1, 1, -1], np.float32)
    zero = np.zeros(4, np.float32)
    operators = [
        operator("GT", ["a", "zero"], ["is_a"]),
        operator("GT", ["b", "zero"], ["is_b"]),
        operator(kind, ["is_a"] if kind == "Not" else ["is_a", "is_b"], ["z"]),
        operator("Cast", ["z"], to="float"),
        operator("Add", ["b", "zero"], ["b_is_read"]),
    ]
    wanted = {"y": expected(a > 0, b > 0).astype(np.float32), "b_is_read": b}
    check(operators, {"a": a, "b": b}, {"zero": zero}, wanted, on)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_matrix_product(trans_a: int, trans_b: int, on: Way) -> None:
    """Blobs with more axes become matrices at ``axis_a`` and ``axis_b``, before they are transposed."""
    a, b = numbers(2, 3, 6), numbers(6, 6, seed=1)
    left = a.reshape(6, 6)
    product = operator("MatMul", ["a", "b"], axis_a=2, trans_a=trans_a, trans_b=trans_b)
    left, right = left.T if trans_a else left, b.T if trans_b else b
    check(product, {"a": a}, {"b": b}, {"y": left @ right}, on)
