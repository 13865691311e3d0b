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
    ("kind", "expected"),
    [
        ("Abs", np.abs),
        ("Negative", np.negative),
        ("Softsign", lambda x: x / (1 + abs(x))),
        ("Sqr", np.square),
        ("FlattenToVec", np.ravel),
    ],
)
def test_functions_of_one_blob(kind: str, expected: Callable[[Array], Array], on: Way) -> None:
    x = numbers(2, 3, 4)
    check(operator(kind), {"x": x}, {}, {"y": expected(x)}, on)
