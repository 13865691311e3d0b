"""Layers that 8 bits cost too much, chosen on the calibration data."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import prototrt
from prototrt.converter.checking.calibration.calibration import Calibration, calibrate
from prototrt.converter.checking.verification.keeping import before_decisions, with_layers_in_float
from prototrt.converter.checking.verification.quantization import quantized_layers
from prototrt.converter.options import CalibrateOptions
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.command_line import DEPLOY, DIGITS, WEIGHTS, run
from prototrt.tests.small_nets import inputs_of, loaded, numbers, op, stored

STRIPS = str(DIGITS / "strips_in.npz")
DATA = CalibrateOptions(inputs=STRIPS)


@cache
def clipped() -> Calibration:
    """The sample's scales, but that of what the first LSTM reads is a hundredth: nearly all of it is lost."""
    scales = calibrate(prototrt.load(DEPLOY, WEIGHTS), DATA).scales
    record = replace(scales.records["ip1"], scale=scales.records["ip1"].scale / 100)
    return Calibration(replace(scales, records={**scales.records, "ip1": record}))


@cache
def chosen() -> Calibration:
    return with_layers_in_float(prototrt.load(DEPLOY, WEIGHTS), DATA, clipped())


def test_the_layer_that_costs_most_stays_in_16_bits() -> None:
    assert chosen().scales.kept == {"int8": ("lstm1",), "fp8": ("lstm1",)}
    assert chosen().scales.records == clipped().scales.records
    number = r"[01]\.\d{4}"
    for eight, text in zip(("int8", "fp8"), chosen().warnings, strict=True):
        pattern = rf"{eight}: lstm1 stays in 16 bits: the cosine with float32 is {number}, and was {number}; "
        match = re.fullmatch(pattern + r"(\d+)% of the multiply-adds have 8 bits", text)
        assert match is not None, text
        assert 0 < int(match[1]) < 100


def test_sound_scales_keep_nothing_and_0_asks_for_nothing() -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    sound = calibrate(model, DATA)
    assert with_layers_in_float(model, DATA, sound) == sound
    assert with_layers_in_float(model, replace(DATA, auto_keep=0), clipped()) is clipped()


def test_a_conversion_keeps_what_the_file_names(tmp_path: Path) -> None:
    file = str(tmp_path / "scales.json")
    chosen().save(file)
    model = prototrt.load(DEPLOY, WEIGHTS)
    with pytest.warns(prototrt.ConversionWarning) as told:
        graph = prototrt.rewrite(model, precision="int8", scales=file)
    assert [str(each.message) for each in told] == [f"{file}: lstm1 stays in 16 bits"]
    assert {*quantized_layers(graph)} == {"conv2", "ip1", "lstm2"}
    everything = prototrt.rewrite(model, precision="int8", scales=file, quantize_all=True)
    assert {*quantized_layers(everything)} == {"conv1", "conv2", "ip1", "lstm1", "lstm2", "score"}


PRODUCT = (
    'layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 4 } }\n'
)
BEST = op("ArgMax", bottoms=["fc"], tops=["best"]) + op("TanH", bottoms=["fc"]).replace("op", "tanh", 1)


@pytest.mark.parametrize(
    ("text", "judged"),
    [(PRODUCT, None), (PRODUCT + op("ArgMax", bottoms=["fc"]), ("fc",)), (PRODUCT + BEST, ("y", "fc"))],
)
def test_what_is_chosen_is_judged_by_what_it_is_chosen_from(
    text: str, judged: tuple[str, ...] | None, tmp_path: Path
) -> None:
    blobs = stored("fc", [numbers(4, 3), numbers(4)])
    model = loaded(tmp_path, inputs_of({"x": (2, 3)}) + text, blobs)
    assert before_decisions(model, RewriteOptions()).outputs == judged


def test_the_cosine_is_a_share() -> None:
    result = run("calibrate", DEPLOY, WEIGHTS, "--inputs", STRIPS, "-o", "scales.json", "--auto-keep", "2")
    assert result.stderr.endswith(
        "Error: --auto-keep is 2.0, expected a cosine of 0 to 1\n  fix: use --auto-keep 0.99\n"
    )
