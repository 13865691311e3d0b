"""What Caffe takes or refuses although one may think otherwise: so do we."""

from __future__ import annotations

from pathlib import Path

import pytest

import prototrt
from prototrt.tests.small_nets import failure, inputs_of, op

X = inputs_of({"x": (1, 2, 4, 4)})
RELU = 'layer { name: "relu" type: "ReLU" bottom: "x" top: "r" }\n'


def rewrite(text: str) -> prototrt.Graph:
    Path("net.prototxt").write_text(text)
    return prototrt.rewrite(prototrt.load("net.prototxt", random_weights=1))


TAKEN = {
    "a shape without an input": (
        f"{X}{RELU}input_dim: 1 input_shape {{ dim: 2 }}",
        "net.prototxt: input_shape and input_dim ignored, as in Caffe: the net states no input",
    ),
    "blobs of a layer that has none": (
        X + 'layer { name: "op" type: "ReLU" bottom: "x" top: "y" blobs { shape { dim: 1 } data: 1 } }',
        'net.prototxt:2: layer "op" (ReLU): blobs is ignored, as in Caffe: the layer has none',
    ),
    "no dilation of one element": (
        X + op("Convolution", "convolution_param { num_output: 1 kernel_size: 1 dilation: 0 }"),
        None,
    ),
    "loss weights of what is read": (
        X + 'layer { name: "op" type: "ReLU" bottom: "x" top: "y" loss_weight: 1 loss_weight: 0 }\n'
        'layer { name: "tanh" type: "TanH" bottom: "y" top: "z" }',
        None,
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_taken(folder: Path, case: str) -> None:
    text, warning = TAKEN[case]
    assert rewrite(text).warnings == (() if warning is None else (warning,))


OP = 'net.prototxt:2: layer "op"'
REFUSED = {
    "a layer without top": (
        op("ReLU", "", ["x"], []) + RELU,
        f"{OP} (ReLU): has no top\n  fix: give it a top; a layer in place has its bottom as its top",
    ),
    "a last layer without top": (
        op("ReLU", "", ["x"], []),
        f"{OP} (ReLU): has no top\n  fix: give it a top; a layer in place has its bottom as its top",
    ),
    "more than an int": (
        op("Pooling", "pooling_param { kernel_size: 2 stride: 4294967295 }"),
        f"{OP} (Pooling): stride is 4294967295, expected at most 2147483647\n"
        "  because Caffe counts with 32-bit integers\n  fix: set stride in pooling_param",
    ),
    "more than an int, once of several times": (
        op("Convolution", "convolution_param { num_output: 1 kernel_size: 1 pad: 0 pad: 4294967295 }"),
        f"{OP} (Convolution): pad is 4294967295, expected at most 2147483647\n"
        "  because Caffe counts with 32-bit integers\n  fix: set pad in convolution_param",
    ),
    "all of a kernel on one place": (
        op("Convolution", "convolution_param { num_output: 1 kernel_size: 2 dilation: 0 }"),
        f"{OP} (Convolution): dilation is 0, expected at least 1\n"
        "  fix: write a positive number for dilation",
    ),
    "slices in place": (
        op("Slice", "", ["x"], ["x", "y"]),
        f'{OP} (Slice), top "x": this layer cannot work in place\n'
        "  because the tops are parts of the bottom\n  fix: give the top another name",
    ),
    "loss weights of what nobody reads": (
        op("ReLU", "loss_weight: 1 loss_weight: 1", ["x"], ["x"]),
        f"{OP} (ReLU): loss_weight is stated 2 times, expected 1, one per top\n"
        "  fix: remove loss_weight: it only matters to training",
    ),
    "too many blobs in the text": (
        op("PReLU", "blobs { shape { dim: 2 } data: [1, 2] } blobs { shape { dim: 1 } data: 1 }"),
        f"{OP} (PReLU): the prototxt has 2 blobs, expected 1\n"
        "  because the layer's blobs have the shapes (2,)\n"
        "  fix: use the prototxt that these weights were trained with",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(folder: Path, case: str) -> None:
    text, message = REFUSED[case]
    assert failure(lambda: rewrite(X + text)) == message
