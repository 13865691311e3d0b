"""Which value a name of a file or a table means, and what is said of names without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.surgery.building.builder import names_in
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import quantizable
from prototrt.surgery.scales.scales_file import Scales, ValueScale
from prototrt.surgery.scales.sources import ScalesForNames, scales_of_options
from prototrt.surgery.scales.tensor_names import tensors_by_value, values_by_tensor
from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.small_nets import failure, inputs_of, loaded

NET = (
    inputs_of({"data": (1, 2, 4, 4)})
    + """
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 2 kernel_size: 1 } }
layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "s" type: "Scale" bottom: "c" top: "c" }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "drop" type: "Dropout" bottom: "c" top: "d" }
layer { name: "p" type: "PReLU" bottom: "d" top: "d" }
layer { name: "flat" type: "Flatten" bottom: "d" top: "f" }
layer { name: "fc" type: "InnerProduct" bottom: "f" top: "fc" inner_product_param { num_output: 3 } }
layer { name: "fc_relu" type: "ReLU" bottom: "fc" top: "fc" }
layer { name: "sum" type: "Reduction" bottom: "fc" top: "sum" reduction_param { operation: ASUM coeff: 2 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""
)


@pytest.fixture
def model(tmp_path: Path) -> prototrt.Model:
    return loaded(tmp_path, NET)


def given(model: prototrt.Model, folder: Path, text: str) -> ScalesForNames:
    path = folder / "cache"
    path.write_text(text)
    return scales_of_options(model, None, str(path), [])


def test_tensors_are_called_as_tensorrts_parser_called_them(model: prototrt.Model) -> None:
    """The layers of TensorRT are counted: Dropout and Flatten are none, PReLU two, a Reduction up to three."""
    assert values_by_tensor(model) == {
        "data": "data",
        "(Unnamed Layer* 0) [Convolution]_output": "c@c",
        "(Unnamed Layer* 1) [Scale]_output": "c@bn",
        "(Unnamed Layer* 2) [Scale]_output": "c@s",
        "(Unnamed Layer* 3) [Activation]_output": "c",
        "(Unnamed Layer* 5) [Parametric ReLU]_output": "d",
        "(Unnamed Layer* 6) [Fully Connected]_output": "fc@fc",
        "(Unnamed Layer* 7) [Activation]_output": "fc",
        "(Unnamed Layer* 10) [Scale]_output": "sum",
        "(Unnamed Layer* 11) [Softmax]_output": "prob",
        "c": "c",
        "d": "d",
        "f": "f",
        "fc": "fc",
        "sum": "sum",
        "prob": "prob",
    }


def test_the_last_tensor_of_a_blob_has_its_name(model: prototrt.Model) -> None:
    tensors = tensors_by_value(model)
    assert (tensors["c"], tensors["c@s"]) == ("c", "(Unnamed Layer* 2) [Scale]_output")


def test_layers_in_place_have_scales_of_their_own(model: prototrt.Model, tmp_path: Path) -> None:
    text = "TRT-1\n(Unnamed Layer* 2) [Scale]_output: 40000000\nc: 3f800000\n"
    found = given(model, tmp_path, text)
    assert found.scales["c@s"] == 2
    assert found.scales["c"] == 1
    assert found.ranges["c@s"] == 254
    assert found.warnings == ()


def test_blobs_that_are_one_tensor_share_its_scale(model: prototrt.Model, tmp_path: Path) -> None:
    """TensorRT knows the tensor of d and f by one of their names only."""
    assert given(model, tmp_path, "TRT-1\nf: 40000000\n").scales == {"d": 2, "f": 2}
    assert given(model, tmp_path, "TRT-1\nd: 40000000\nf: 3f800000\n").scales == {"d": 2, "f": 1}


def test_a_layer_stands_for_the_blob_that_it_reads(model: prototrt.Model, tmp_path: Path) -> None:
    found = given(model, tmp_path, "c_param_0 1\nfc_param_0 1\nc 0.5\nfc 0.25\n")
    assert {name: found.scales[name] for name in ("data", "f")} == {"data": 2, "f": 4}


def test_nvdla_names_layers_for_what_they_write(model: prototrt.Model, tmp_path: Path) -> None:
    """But inputs by their blobs, whatever the layer is called; the blob c is something else than what c writes."""
    found = given(model, tmp_path, '{"data": {"scale": 1}, "c": {"scale": 2}, "r": {"scale": 3}}')
    assert {name: found.scales[name] for name in ("data", "c@c", "c")} == {"data": 1, "c@c": 2, "c": 3}


def test_the_largest_of_several_scales_of_a_blob_counts(tmp_path: Path) -> None:
    product = 'type: "InnerProduct" bottom: "x" inner_product_param { num_output: 1 }'
    model = loaded(
        tmp_path,
        inputs_of({"x": (1, 2)})
        + f'layer {{ name: "a" top: "a" {product} }} layer {{ name: "b" top: "b" {product} }}',
    )
    assert given(model, tmp_path, "a_param_0 1\nb_param_0 1\na 0.5\nb 0.25\n").scales == {"x": 4}


def test_what_fits_no_blob_is_listed(model: prototrt.Model, tmp_path: Path) -> None:
    names = "".join(f"gone{number}: 3f800000\n" for number in range(12))
    found = given(model, tmp_path, f"TRT-1\nc: 3f800000\nfc: 0\n{names}")
    assert found.scales == {"c": 1, "d@drop": 1}
    assert found.unused == (*(f"gone{number}" for number in range(12)), "fc")
    assert found.warnings == (
        f"{tmp_path}/cache: not used, because the net has no such blob:"
        " gone0, gone1, gone2, gone3, gone4, gone5, gone6, gone7, gone8, gone9 and 2 more",
        f"{tmp_path}/cache: not used, because the scale is 0: fc",
    )


def test_a_table_of_another_net(model: prototrt.Model, tmp_path: Path) -> None:
    assert failure(lambda: given(model, tmp_path, "TRT-1\nother: 3f800000\n")) == (
        f"{tmp_path}/cache: has no scale for this net\n"
        "  because it names other, but the blobs are data, c@c, c@bn, c@s, c, d@drop, d, f, fc@fc, fc and 2 more\n"
        "  fix: calibrate it"
    )


def write(folder: Path, scales: Scales) -> str:
    path = folder / "scales.json"
    path.write_text(scales.text())
    return str(path)


def test_our_file_also_names_values_that_are_no_blobs(tmp_path: Path) -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    names = names_in(quantizable(model))
    inside = next(name for name in names if name.endswith("_recurrent_product"))
    file = write(tmp_path, Scales({inside: ValueScale(0.5), "pool1": ValueScale(1.0)}))
    assert scales_of_options(model, file, None, names).scales == {inside: 0.5, "pool1": 1}


def test_scales_of_other_weights(tmp_path: Path) -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    other = {"weights": {"file": "other.caffemodel", "sha256": "0123456789abcdef"}}
    file = write(tmp_path, Scales({"pool1": ValueScale(1.0)}, sources=other))
    actual = model.weights.sha256
    assert failure(lambda: scales_of_options(model, file, None, [])) == (
        f"{file}: is for another model\n"
        f"  because it was made with other.caffemodel, whose SHA-256 is 01234567..., but that of {WEIGHTS} is"
        f" {str(actual)[:8]}...\n"
        "  fix: calibrate this model, and give the new file with scales"
    )
    same = {"weights": {"file": "renamed.caffemodel", "sha256": actual}}
    assert scales_of_options(
        model, write(tmp_path, Scales({"pool1": ValueScale(1.0)}, sources=same)), None, []
    ).scales


def test_scales_without_a_hash_are_taken_by_their_names(tmp_path: Path) -> None:
    model = loaded(tmp_path, NET)
    assert scales_of_options(model, write(tmp_path, Scales({"c": ValueScale(0.25)})), None, []).scales == {
        "c": 0.25
    }


def test_two_sources_of_scales() -> None:
    assert failure(lambda: RewriteOptions(scales="a.json", calibration_cache="b.cache"), OptionsError) == (
        "scales and calibration_cache are both given\n  fix: leave out calibration_cache"
    )


def test_a_scale_keeps_its_bits_on_the_way_through_a_range() -> None:
    scales = np.random.default_rng(0).uniform(0, 1, 1000).astype(np.float32)
    ranges = ScalesForNames({str(number): float(scale) for number, scale in enumerate(scales)}, "").ranges
    np.testing.assert_array_equal(np.array([limit / 127 for limit in ranges.values()], np.float32), scales)
