"""What is proposed for the shape of an input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prototrt.caffe_proto import load
from prototrt.caffe_proto.common.wording import Option
from prototrt.caffe_proto.net.shape_examples import shape_option

INPUT = "layer { name: 'in' type: 'Input' top: 'x' } layer { name: 'in2' type: 'Input' top: 'y' }"
RELU = "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' }"
LSTM = "layer { name: 'l' type: 'LSTM' bottom: '%s' bottom: '%s' top: 'h' recurrent_param { num_output: 3 } }"
EMBED = "layer { name: 'e' type: 'Embed' bottom: 'x' top: 'e' }"
PRODUCT = "layer { name: 'f' type: 'InnerProduct' bottom: 'x' top: 'f' inner_product_param { axis: %d } }"
EXAMPLES = [
    ("layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' }", "NxCxHxW"),
    (
        "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' } layer { name: 'p' type: 'Pooling' bottom: 'c' "
        "top: 'p' pooling_param { kernel_size: [1, 2, 2] } }",
        "NxCxLxHxW",
    ),
    (
        "layer { name: 'c' type: 'NdConvolution' bottom: 'x' top: 'c' convolution_param { num_output: 2 "
        "kernel_shape { dim: 3 dim: 3 } } }",
        "NxCxHxW",
    ),
    (
        "layer { name: 'p' type: 'NdPooling' bottom: 'x' top: 'p' pooling_param { "
        "kernel_shape { dim: 2 dim: 3 dim: 3 } } }",
        "NxCxLxHxW",
    ),
    (LSTM % ("x", "y"), "TxNxI"),
    (LSTM % ("y", "x"), "TxN"),
    (RELU + LSTM % ("r", "y"), "TxNxI"),
    (EMBED + LSTM % ("e", "y"), "TxN"),
    (EMBED, "N"),
    (PRODUCT % 1, "NxI"),
    (PRODUCT % 2, "TxNxI"),
    (PRODUCT % 3, "NxCxHxW"),
    (RELU, "NxCxHxW"),
    (
        "layer { name: 'l' type: 'LSTM' bottom: 'y' bottom: 'y' bottom: 'x' top: 'h' "
        "recurrent_param { num_output: 3 } }",
        "NxI",
    ),
]


@pytest.mark.parametrize(("layers", "axes"), EXAMPLES)
def test_examples(layers: str, axes: str, write: Callable[..., str]) -> None:
    assert shape_option("x", load(write(INPUT + layers)).layers) == Option("shapes", {"x": axes.split("x")})


def test_facts_of_an_image_in_faster_rcnn(write: Callable[..., str]) -> None:
    proposals = """
layer { name: 'in' type: 'Input' top: 'im_info' }
layer { name: 'p' type: 'Python' bottom: 'x' bottom: 'y' bottom: 'im_info' top: 'rois'
  python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' } }
"""
    layers = load(write(INPUT + proposals)).layers
    assert shape_option("im_info", layers) == Option("shapes", {"im_info": [1, 3]})


CYCLES = [
    "layer { name: 'e' type: 'Embed' bottom: 'x' top: 'x' embed_param { num_output: 2 input_dim: 3 } }",
    "layer { name: 'e' type: 'Embed' bottom: 'x' embed_param { num_output: 2 input_dim: 3 } }",
    "layer { name: 'r' type: 'ReLU' bottom: 'e' top: 'x' }"
    "layer { name: 'e' type: 'Embed' bottom: 'x' top: 'e' embed_param { num_output: 2 input_dim: 3 } }",
    "".join(
        f"layer {{ name: 'e{place}' type: 'Embed' bottom: 'e{place}' top: 'e{place + 1}'"
        " embed_param { num_output: 2 input_dim: 3 } }"
        for place in range(2_000)
    ),
]


@pytest.mark.parametrize("layers", CYCLES)
def test_an_embed_within_a_cycle_and_a_chain_of_them(layers: str, write: Callable[..., str]) -> None:
    blob = next(name for name in ("e0", "e", "x") if f"bottom: '{name}'" in layers)
    assert shape_option(blob, load(write(INPUT + layers)).layers) == Option("shapes", {blob: ["N"]})
