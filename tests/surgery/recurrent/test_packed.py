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


@pytest.mark.parametrize("bottoms", [("h", "y"), ("y", "h")], ids=" ".join)
@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_an_eltwise_beside_three_axes(kind: str, bottoms: tuple[str, str], folder: Path) -> None:
    """MyCaffe compares shapes up to a last 1. The top has the shape of the first bottom, as there."""
    text = NET.replace("FIELDS", "").replace("BOTTOMS", "").replace("LSTM", kind)
    text += 'layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 2 dim: 1 dim: 3 } } }\n'
    text += f'layer {{ name: "s" type: "Eltwise" bottom: "{bottoms[0]}" bottom: "{bottoms[1]}" top: "s" }}\n'
    Path("net.prototxt").write_text(text)
    size = (4 if kind == "LSTM" else 1) * 3 * (4 + 3 + 2)
    write_npz("net.npz", {"lstm/0": np.linspace(-1, 1, size, dtype=np.float32).reshape(-1, 1, 1)})
    graph = prototrt.rewrite(prototrt.load("net.prototxt", "net.npz"), outputs=["h", "s"])
    y = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    feeds = {"x": np.ones((2, 1, 4), np.float32), "cont": np.ones((2, 1), np.float32), "y": y}
    results = prototrt.Session(graph).run(feeds)
    assert results["h"].shape == (2, 1, 3, 1)
    assert results["s"].shape == ((2, 1, 3, 1) if bottoms[0] == "h" else (2, 1, 3))
    np.testing.assert_allclose(results["s"].ravel(), (results["h"][..., 0] + y).ravel(), 1e-6)


@pytest.mark.parametrize("axes", [(3, 1), (3, 1, 1)], ids=str)
def test_an_eltwise_of_other_layers_is_strict(axes: tuple[int, ...], folder: Path) -> None:
    """As in Caffe, also beside a layer of Caffe itself."""
    dims = " ".join(f"dim: {dim}" for dim in (2, 1, *axes))
    text = NET.replace("FIELDS", "").replace("BOTTOMS", "")
    text += f'layer {{ name: "y" type: "Input" top: "y" input_param {{ shape {{ {dims} }} }} }}\n'
    text += 'layer { name: "s" type: "Eltwise" bottom: "h" bottom: "y" top: "s" }\n'
    Path("net.prototxt").write_text(text)
    with pytest.raises(ConversionError, match="Eltwise"):
        prototrt.rewrite(prototrt.load("net.prototxt", random_weights=1))
