"""What Caffe2 does not run is refused, and by name; what it does not look at is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt.surgery.ir import Array
from prototrt.tests.caffe2_nets import graph_of, operator, refusal
from prototrt.tests.small_nets import numbers
from prototrt.tests.surgery.caffe2.refusal_cases import REFUSALS

BLOBS: dict[str, Array] = {
    "image": numbers(1, 2, 5, 6),
    "volume": numbers(1, 2, 3, 4, 5),
    "rows": numbers(2, 4),
    "sequences": numbers(3, 2, 4),
    "one": numbers(1),
    "three": numbers(3),
    "middle": numbers(2, 1, 4),
    "kernel": numbers(2, 2, 3, 3),
    "weights": numbers(3, 4),
    "state": numbers(1, 2, 4),
    "gates": numbers(1, 2, 16),
    "step": np.array([0], np.int32),
    "lengths": np.array([1, 2], np.int32),
    "matrix": np.array([[1, 2]], np.int32),
    "places": numbers(1, 2, 3, 4),
    "moves": numbers(1, 8, 3, 4),
    "info": numbers(1, 3),
    "infos": numbers(2, 3),
    "anchors": numbers(2, 4),
    "turned": numbers(2, 5),
    "regions": numbers(3, 5),
    "plain": numbers(3, 4),
    "of_classes": numbers(3, 8),
    "shares": numbers(3, 2),
    "column": numbers(3, 1),
}


def message(kind: str, inputs: str, arguments: dict[str, Any], outputs: int = 1) -> str:
    """What the user is told about one operator whose first input is fed."""
    first, *others = inputs.split()
    names = [f"y{index}" for index in range(outputs)]
    weights = {name: BLOBS[name] for name in others if name != first}
    return refusal(operator(kind, [first, *others], names, **arguments), {first: BLOBS[first]}, weights)


@pytest.mark.parametrize(("kind", "inputs", "arguments", "expected"), REFUSALS)
def test_refusal(kind: str, inputs: str, arguments: dict[str, Any], expected: str) -> None:
    if inputs:
        assert message(kind, inputs, arguments) == f"operator 0 ({kind}){expected}"
        return
    operators = [operator("Relu", ["rows"], ["y"]), operator(kind, [], ["z"], **arguments)]
    assert refusal(operators, {"rows": BLOBS["rows"]}, {}) == f"operator 1 ({kind}){expected}"


def test_a_constant_in_a_shape_that_it_does_not_fit() -> None:
    operators = [
        operator("Reshape", ["three"], ["z", "sizes"], shape=[2, 2]),
        operator("Relu", ["rows"], ["y"]),
    ]
    operators += [operator("Add", ["y", "z"], ["sum"])]
    found = refusal(operators, {"rows": BLOBS["rows"]}, {"three": BLOBS["three"]})
    assert found == (
        "operator 0 (Reshape): (3,) cannot become (2, 2): the numbers of elements differ\n"
        "  fix: state sizes with as many elements"
    )


def test_concat_of_different_ranks() -> None:
    assert message("Concat", "rows three", {"axis": 1}, outputs=2) == (
        "operator 0 (Concat): shapes (2, 4) and (3,) differ outside axis 1\n"
        "  fix: give them sizes that differ only in this axis"
    )


def test_concat_states_its_axis_once() -> None:
    expected = "operator 0 (Concat): states both axis and order, expected one of them\n  fix: remove the argument order"
    assert message("Concat", "rows weights", {"axis": 0, "order": "NHWC"}, outputs=2) == expected


@pytest.mark.parametrize(
    ("kind", "arguments", "outputs", "expected"),
    [
        (
            "MaxPool",
            {"kernel": 2, "pad_t": 1, "pad_b": 1},
            1,
            "states pad_t, pad_b without the rest of pad_t, pad_l, pad_b, pad_r: ignored, as in Caffe2",
        ),
        ("Split", {"add_axis": 1}, 2, "states add_axis without axis: add_axis is ignored, as in Caffe2"),
    ],
)
def test_what_caffe2_does_not_look_at(
    kind: str, arguments: dict[str, Any], outputs: int, expected: str
) -> None:
    names = [f"y{index}" for index in range(outputs)]
    graph = graph_of([operator(kind, ["image"], names, **arguments)], {"image": BLOBS["image"]}, {})
    assert [warning.partition("): ")[2] for warning in graph.warnings] == [expected]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (
            "rows",
            "rows",
            ', input "chosen": shape is (3,), expected (2, 4)\n'
            "  fix: give the shapes and the init net that belong to this predict net",
        ),
        (
            "rows",
            "weights",
            ', input "weights": holds float32 (3, 4), expected float32 (2, 4)\n'
            "  fix: give the shapes and the init net that belong to this predict net",
        ),
    ],
)
def test_a_condition_that_does_not_fit(a: str, b: str, expected: str) -> None:
    operators = [operator("GT", ["three", "three"], ["chosen"]), operator("Where", ["chosen", a, b], ["y"])]
    arrays = {name: BLOBS[name] for name in ("three", a, b)}
    assert refusal(operators, arrays, {}) == f"operator 1 (Where){expected}"


def test_a_condition_of_computed_numbers() -> None:
    operators = [operator("Relu", ["rows"], ["r"]), operator("Where", ["r", "rows", "rows"], ["y"])]
    assert refusal(operators, {"rows": BLOBS["rows"]}, {}) == (
        'operator 1 (Where), input "r": holds float32, expected bool\n  fix: insert a comparison or a Cast before it'
    )
