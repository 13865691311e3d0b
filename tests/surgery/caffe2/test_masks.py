"""Operators of Caffe2 that look at the lengths of rows or at an order of places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt import Way
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.tests.caffe2_nets import check, operator, refusal
from prototrt.tests.small_nets import WAYS, numbers

MASKS = {
    "sequence": lambda i, j, c: j >= c[i],
    "window": lambda i, j, c: (j > c[i] + 1) | (j < c[i] - 1),
    "upper": lambda i, j, c: j > i,
    "lower": lambda i, j, c: j < i,
    "upperdiag": lambda i, j, c: j >= i,
    "lowerdiag": lambda i, j, c: j <= i,
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("mode", MASKS)
@pytest.mark.parametrize(
    ("arguments", "rows"), [({}, 3), ({"axis": 2, "batch": 0}, 2), ({"axis": -1}, 6)], ids=str
)
def test_sequence_mask(mode: str, arguments: dict[str, Any], rows: int, on: Way) -> None:
    x = numbers(3, 2, 4)
    lengths = np.array([2, 4, 0, 1, 3, 5][:rows], np.int32)
    flat = x.reshape(-1, rows, 24 // rows // (3 if "batch" in arguments else 1))
    i, j = np.indices(flat.shape[1:])
    expected = np.where(MASKS[mode](i, j, lengths), -7.5, flat).reshape(x.shape)
    has_input = mode in ("sequence", "window")
    inputs = {"x": x, **({"lengths": lengths} if has_input else {})}
    mask = operator("SequenceMask", list(inputs), mode=mode, radius=1, fill_val=-7.5, **arguments)
    check(mask, inputs, {}, {"y": expected}, on)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("last", [2, -1])
def test_sequence_mask_repeats_from_an_axis(last: int, on: Way) -> None:
    x, lengths = numbers(3, 4, 2), np.array([4, 0, 2], np.int32)
    expected = np.where(np.arange(4)[None, :, None] >= lengths[:, None, None], -np.inf, x)
    mask = operator("SequenceMask", ["x", "lengths"], mode="sequence", repeat_from_axis=last)
    check(mask, {"x": x, "lengths": lengths}, {}, {"y": expected}, on)


@pytest.mark.parametrize(
    ("inputs", "arguments", "message"),
    [
        (
            ["x"],
            {"mode": "middle"},
            'mode is "middle", expected one of sequence, window, upper, lower, upperdiag, lowerdiag\n'
            '  fix: cut the net before this operator with outputs=["BLOB"]',
        ),
        (
            ["x"],
            {"mode": "sequence"},
            'has 1 inputs, expected 2 inputs for mode "sequence"\n'
            "  fix: correct the arguments, or export the net again",
        ),
        (
            ["x", "lengths"],
            {"mode": "upper"},
            'has 2 inputs, expected 1 input for mode "upper"\n'
            "  fix: correct the arguments, or export the net again",
        ),
        (
            ["x", "lengths"],
            {"mode": "sequence"},
            'input "lengths": shape is (5,), expected (3,)\n'
            "  fix: give the shapes and the init net that belong to this predict net",
        ),
        (
            ["x"],
            {"mode": "upper", "batch": 1},
            "batch is 1, expected an axis before axis 1\n  fix: correct the arguments, or export the net again",
        ),
    ],
)
def test_sequence_mask_refuses(inputs: list[str], arguments: dict[str, Any], message: str) -> None:
    arrays = {"x": numbers(3, 4), "lengths": np.ones(5, np.int32)}
    found = refusal(
        operator("SequenceMask", inputs, **arguments), {name: arrays[name] for name in inputs}, {}
    )
    separator = ", " if message.startswith("input") else ": "
    assert found == f"operator 0 (SequenceMask){separator}{message}"


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("lengths", [[4, 0, 1], [3, 2, 4], [1, 4, 4]])
def test_reverse_packed_segs(lengths: list[int], on: Way) -> None:
    x, count = numbers(4, 3, 2), np.array(lengths, np.int32)
    expected = x.copy()
    for n, length in enumerate(lengths):
        expected[:length, n] = x[:length, n][::-1]
    reverse = operator("ReversePackedSegs", ["x", "lengths"])
    check(reverse, {"x": x, "lengths": count}, {}, {"y": expected}, on)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("length", [5, -1])
def test_reverse_packed_segs_refuses_lengths_outside(length: int, on: Way) -> None:
    x, count = numbers(4, 3, 2), np.array([4, length, 1], np.int32)
    reverse = operator("ReversePackedSegs", ["x", "lengths"])
    with pytest.raises(ShapeError, match=f"length {length} is not one of 0 to 4"):
        check(reverse, {"x": x, "lengths": count}, {}, {"y": x}, on)
