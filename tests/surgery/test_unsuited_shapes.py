"""Shapes from outside that a net does not bear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto import ConversionError
from prototrt.tests.npz import write_npz

NET = """layer { name: "in" type: "Input" top: "x" top: "y" input_param {shape {dim: [1,2,4,4]} shape {dim: 1}} }
layer { name: "conv" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "fc" type: "InnerProduct" bottom: "c" top: "z" inner_product_param { num_output: 3 } }
layer { name: "s" type: "Scale" bottom: "z" bottom: "y" top: "s" scale_param { axis: 0 } }
"""
WEIGHTS: dict[str, Any] = {
    "conv/0": np.ones((2, 2, 3, 3), np.float32),
    "conv/1": np.ones(2, np.float32),
    "fc/0": np.ones((3, 8), np.float32),
    "fc/1": np.ones(3, np.float32),
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> prototrt.Model:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    write_npz("weights.npz", WEIGHTS)
    return prototrt.load("net.prototxt", "weights.npz")


X = 'net.prototxt:1: layer "in" (Input), top "x": '
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"shapes": {"x": (2, 4, 4)}},
        f"{X}the shape given is (2, 4, 4), but the file states (1, 2, 4, 4)\n"
        '  because with it, layer "conv" (Convolution), blob 0 (weights): shape in the weights file is'
        " (2, 2, 3, 3), expected (2, 4, 3)\n"
        '  fix: give 4 axes, as in shapes={"x": (1, 2, 4, 4)}',
    ),
    (
        {"shapes": {"x": (8,), "y": (1,)}},
        f"{X}the shape given is (8,), but the file states (1, 2, 4, 4)\n"
        '  because with it, layer "conv" (Convolution): axis is 1, but the bottom has 1 axes: (8,)\n'
        '  fix: give 4 axes, as in shapes={"x": (1, 2, 4, 4)}',
    ),
    (
        {"shapes": {"x": (1, 2, 5, 5)}},
        f"{X}the shape given is (1, 2, 5, 5), but the file states (1, 2, 4, 4)\n"
        '  because with it, layer "fc" (InnerProduct), blob 0 (weights): shape in the weights file is'
        " (3, 8), expected (3, 18)\n"
        '  fix: give the size of the file, shapes={"x": (1, 2, 4, 4)}',
    ),
    (
        {"opt_shapes": {"x": (2, 4, 4)}},
        f"{X}the shape given is (2, 4, 4), but the file states (1, 2, 4, 4)\n"
        '  because with it, layer "conv" (Convolution), blob 0 (weights): shape in the weights file is'
        " (2, 2, 3, 3), expected (2, 4, 3)\n"
        '  fix: give 4 axes, as in shapes={"x": (1, 2, 4, 4)}',
    ),
    (  # the number of axes is right, and what is wrong is another input
        {"shapes": {"y": (2,)}},
        'net.prototxt:4: layer "s" (Scale), bottom "y": shape is (2,), expected the sizes of (1, 3) from axis 0 on\n'
        '  because (1, 3) is the shape of the first bottom, "z"\n'
        "  fix: use another axis, or give it these sizes",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_refused(model: prototrt.Model, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(model, **options)
    assert str(caught.value) == message


def test_other_axes_are_fine_where_the_net_bears_them(model: prototrt.Model) -> None:
    text = (
        Path("net.prototxt").read_text().replace('bottom: "y"', "").replace('type: "Scale"', 'type: "TanH"')
    )
    Path("net.prototxt").write_text(text.replace("kernel_size: 3", "kernel_size: 1").replace("fc", "new"))
    graph = prototrt.rewrite(prototrt.load("net.prototxt", random_weights=1), shapes={"x": (2, 4)})
    assert graph.outputs[0].shape == (2, 3)
