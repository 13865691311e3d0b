"""What 8 bits cost: each output, each layer alone, and the layers that must stay float."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import OptionsError, VerificationError
from prototrt.converter.checking.verification.quantization import QuantizationCost, quantization_cost
from prototrt.converter.files.signatures.feeds import read_feeds
from prototrt.converter.options import VerifyOptions
from prototrt.converter.running.data.data import Call
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.command_line import DEPLOY, DIGITS, WEIGHTS, run
from prototrt.tests.small_nets import failure, inputs_of, loaded, numbers, op, stored

RANGES = {"data": 1.0, "pool1": 5.6, "pool2": 10.7, "ip1": 52.0}
"""Measured on the strips of the sample."""
CALLS = [Call("", feed) for feed in read_feeds(str(DIGITS / "strips_in.npz"), ["data", "cont"], None)]


@cache
def digits_cost(ip1: float = RANGES["ip1"], wanted: float | None = None) -> QuantizationCost:
    options = RewriteOptions(precision="int8", ranges={**RANGES, "ip1": ip1})
    return quantization_cost(prototrt.load(DEPLOY, WEIGHTS), options, CALLS, wanted)


def test_every_digit_is_read_as_in_float32() -> None:
    (cost,) = digits_cost().outputs
    assert (cost.output, cost.agreement) == ("prob", 1)
    assert 1e-3 < cost.max_abs < 0.1
    assert cost.cosine > 0.999


def test_each_quantized_layer_is_measured_alone() -> None:
    layers = digits_cost().layers
    assert {cost.layer.layer for cost in layers} == {"conv2", "ip1", "lstm1", "lstm2"}
    errors = [cost.worst.rms for cost in layers]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] > 0
    assert errors[0] < 1.5 * digits_cost().outputs[0].rms


def test_a_scale_that_is_too_small_is_found_at_its_layer() -> None:
    """The first LSTM reads ip1, which is up to 52: beyond 2 all is lost."""
    cost = digits_cost(2.0)
    assert cost.outputs[0].agreement is not None
    assert cost.outputs[0].agreement < 0.99
    assert cost.layers[0].layer.layer == "lstm1"


def test_the_fewest_layers_are_kept_float() -> None:
    cost = digits_cost(2.0, wanted=0.99)
    assert cost.kept == ("lstm1",)
    assert cost.score >= 0.99
    assert digits_cost(wanted=0.99).kept == ()


@pytest.mark.parametrize(("wanted", "most", "computed"), [(None, 4, 4), (0.99, 8, 5)])
def test_progress_counts_the_nets_that_are_computed(wanted: float | None, most: int, computed: int) -> None:
    """Four layers are quantized alone, and one of them is kept in float."""
    heard: list[int | None] = []

    def started(parts: int | None) -> Callable[[], object]:
        heard.append(parts)
        return lambda: heard.append(None)

    options = RewriteOptions(precision="int8", ranges={**RANGES, "ip1": 2.0})
    quantization_cost(prototrt.load(DEPLOY, WEIGHTS), options, CALLS, wanted, started)
    assert heard == [most, *[None] * computed]


def test_16_bits_may_cost_too_much(tmp_path: Path) -> None:
    layer = op("InnerProduct", "inner_product_param { num_output: 1 bias_term: false }")
    model = loaded(tmp_path, inputs_of({"x": (2, 3)}) + layer, stored("op", [numbers(1, 3)]))
    options = RewriteOptions(precision="int8", ranges={"x": 3.0}, quantize_all=True)
    calls = [Call("", {"x": numbers(2, 3, seed=1)})]
    message = failure(lambda: quantization_cost(model, options, calls, 1.0), VerificationError)
    assert re.sub(r"0\.99999\d+", "0.99999...", message) == (
        'output "y": the cosine with float32 is 0.99999..., expected 1\n'
        "  because 16 bits alone cost as much: no layer is left in 8 bits\n"
        '  fix: ask for less, or use precision="fp32" without auto_keep'
    )


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_share_is_above_0_and_up_to_1(share: float) -> None:
    assert failure(lambda: VerifyOptions(auto_keep=share), OptionsError) == (
        f"auto_keep is {share}, expected a share above 0, up to 1\n  fix: use auto_keep=0.99"
    )


def test_auto_keep_is_for_8_bits() -> None:
    result = run("verify", DEPLOY, WEIGHTS, "--auto-keep", "0.9", "--calls", "1")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "Error: --auto-keep is for int8 and fp8\n  fix: leave it out, or use --precision int8\n"
    )


def test_beside_probabilities_other_outputs_have_no_classes(tmp_path: Path) -> None:
    """As in a detector, whose boxes are judged by their cosine."""
    layers = [
        'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 4 } }',
        'layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }',
        'layer { name: "boxes" type: "InnerProduct" bottom: "x" top: "boxes" inner_product_param { num_output: 4 } }',
    ]
    blobs = stored("ip", [numbers(4, 3), numbers(4)]) | stored("boxes", [numbers(4, 3, seed=2), numbers(4)])
    model = loaded(tmp_path, inputs_of({"x": (5, 3)}) + "\n".join(layers), blobs)
    options = RewriteOptions(precision="int8", ranges={"x": 3.0}, quantize_all=True)
    costs = quantization_cost(model, options, [Call("", {"x": numbers(5, 3, seed=1)})]).outputs
    judged = {cost.output: (cost.agreement is None, cost.score) for cost in costs}
    assert judged["prob"] == (False, 1.0)
    assert judged["boxes"][0]
    assert 0.99 < judged["boxes"][1] < 1
