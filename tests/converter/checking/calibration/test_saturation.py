"""Data that a quantized net clips."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Precision
from prototrt.converter.checking.calibration.saturation import saturation_warnings
from prototrt.converter.running.data.data import Call
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import DEPLOY, DIGITS, WEIGHTS
from prototrt.tests.small_nets import rewritten, stored

PRODUCTS = "".join(
    f'layer {{ name: "{name}" type: "InnerProduct" bottom: "{bottom}" top: "{name}"'
    " inner_product_param { num_output: 2 bias_term: false } }"
    for bottom, name in (("x", "a"), ("a", "b"), ("b", "c"))
)
WEIGHTS_OF_PRODUCTS = {key: array for name in "abc" for key, array in stored(name, [np.eye(2)]).items()}


def net(precision: Precision = "int8", **ranges: float) -> Graph:
    return rewritten(PRODUCTS, {"x": (1, 2)}, WEIGHTS_OF_PRODUCTS, precision=precision, ranges=ranges)


def calls(*rows: list[float]) -> list[Call]:
    return [Call("", {"x": np.array([row], np.float32)}) for row in rows]


@pytest.mark.parametrize("precision", ["int8", "int8,bf16"])
def test_values_beyond_their_range_are_named_with_their_share(precision: Precision) -> None:
    graph = net(precision, x=10, a=2)
    assert saturation_warnings(graph, calls([1, 1], [1, 4])) == [
        "more than 1% of the numbers are beyond the range of 8 bits: a (25%)"
    ]


def test_nothing_is_said_of_data_that_fit() -> None:
    assert saturation_warnings(net(x=10, a=10), calls([1, -9], [3, 4])) == []


def test_what_a_relu_makes_zero_may_be_clipped() -> None:
    """It is quantized before the ReLU, so that the ReLU computes in 8 bits."""
    relu = 'layer { name: "relu" type: "ReLU" bottom: "a" top: "a" }'
    layers = PRODUCTS.replace('layer { name: "b"', relu + ' layer { name: "b"')
    ranges = {"x": 9.0, "a": 1.0}
    graph = rewritten(layers, {"x": (1, 2)}, WEIGHTS_OF_PRODUCTS, precision="int8", ranges=ranges)
    assert saturation_warnings(graph, calls([-5, 1])) == []
    assert saturation_warnings(graph, calls([-5, 5])) == [
        "more than 1% of the numbers are beyond the range of 8 bits: a@a (50%)"
    ]


def test_a_net_that_is_not_quantized_clips_nothing() -> None:
    graph = rewritten(PRODUCTS, {"x": (1, 2)}, WEIGHTS_OF_PRODUCTS)
    assert saturation_warnings(graph, calls([1e9, 1])) == []


def test_the_steps_of_a_recurrent_layer_are_looked_at() -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    ranges = dict.fromkeys(["pool1", "pool2", "ip1", "lstm1", "lstm2"], 100.0)
    arrays = np.load(DIGITS / "strips_in.npz")
    strips = [Call("", {"data": arrays["data/0"], "cont": arrays["cont"]})]
    assert saturation_warnings(prototrt.rewrite(model, precision="int8", ranges=ranges), strips) == []
    ranges |= {"ip1": 1.0}
    (warning,) = saturation_warnings(prototrt.rewrite(model, precision="int8", ranges=ranges), strips)
    assert "beyond the range of 8 bits: " in warning
