"""Recurrent layers whose weights are one blob, as cuDNN packs them. The golden lstm_mycaffe has their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.tests.golden_cases import case_called
from prototrt.tests.npz import write_npz

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 1 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 2 dim: 1 } } }
layer { name: "h" type: "Input" top: "h0" top: "c0" input_param { shape { dim: 1 dim: 1 dim: 3 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" BOTTOMS top: "h" recurrent_param { num_output: 3 FIELDS } }
"""


def graph(count: int, fields: str = "", bottoms: str = "") -> prototrt.Graph:
    Path("net.prototxt").write_text(NET.replace("FIELDS", fields).replace("BOTTOMS", bottoms))
    write_npz("net.npz", {"lstm/0": np.ones((count, 1, 1), np.float32)})
    return prototrt.rewrite(prototrt.load("net.prototxt", "net.npz"))


@pytest.mark.parametrize(
    ("count", "fields", "bottoms", "message"),
    [
        (
            120,
            "",
            "",
            'layer "lstm" (LSTM): blob 0 is not one of cuDNN: the vector has 120 numbers, expected 108\n'
            "  because D is 4, H 3, with 1 layers\n  fix: give the weights that were saved with this net",
        ),
        (
            108,
            "",
            'bottom: "h0" bottom: "c0"',
            'layer "lstm" (LSTM): has 4 bottoms, expected x and cont: its weights are one blob, as cuDNN has them\n'
            "  fix: remove expose_hidden and the initial states, which become bindings",
        ),
        (
            108,
            "forget_bias: 1",
            "",
            'layer "lstm" (LSTM): states forget_bias, which does not apply to layers of this type\n'
            "  fix: remove it; the supported fields are num_layers",
        ),
    ],
)
def test_refusals(count: int, fields: str, bottoms: str, message: str, folder: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        graph(count, fields, bottoms)
    assert str(caught.value) == f"net.prototxt:5: {message}"


def test_without_cont_every_call_continues(folder: Path) -> None:
    """Its first number is 1 in the third call of the golden, and 0 in the first, which begins with zeros."""
    case = case_called("lstm_mycaffe")
    session = prototrt.Session(prototrt.rewrite(case.load(), cont="drop"))
    for inputs, expected in zip(case.arrays("inputs"), case.arrays("outputs"), strict=True):
        results = session.run({"x": inputs["x"]})
        np.testing.assert_allclose(results["ip"], expected["ip"], 1e-4, 1e-5)
