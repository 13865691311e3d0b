"""Quantized nets on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from prototrt.caffe_proto.weights import sha256_of
from prototrt.cli import main
from prototrt.converter.front.batch import runner
from prototrt.surgery.scales.scales_file import Scales, ValueScale
from prototrt.tests.command_line import DEPLOY, DIGITS, WEIGHTS, done, run
from prototrt.tests.converter.front.batch.support import InThisProcess

STRIPS = str(DIGITS / "strips_in.npz")


@pytest.fixture(scope="module")
def scales(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What calibration wrote for the sample: by option, a file of scales, and a calibration cache."""
    folder = tmp_path_factory.mktemp("scales")
    files = {"--scales": str(folder / "scales.json"), "--calibration-cache": str(folder / "net.cache")}
    targets = ["-o", files["--scales"], "--export-cache", files["--calibration-cache"]]
    done("calibrate", DEPLOY, WEIGHTS, "--inputs", STRIPS, *targets)
    return files


def quantized_layers(*options: str) -> list[str]:
    """The layers whose weights have 8 bits. Without weights no scale is needed to see where 8 bits begin and end."""
    text = done("inspect", DEPLOY, "--stage", "rewritten", "--precision", "int8", *options).stdout
    return re.findall(r"__(\w+)_(?:weights|W_xc|W_hc)_dequantized: ", text)


@pytest.mark.parametrize(
    "command",
    [
        "convert -o net.onnx",
        "run --inputs strips_in.npz -o out.npz",
        "verify --on network --calls 1",
        "dot --stage rewritten -o net.dot",
    ],
)
def test_options_for_8_bits_are_told_to_change_nothing_without(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strips_in.npz").symlink_to(DIGITS / "strips_in.npz")
    name, *options = command.split()
    forgotten = done(name, DEPLOY, WEIGHTS, "--scales", "scales.json", "--keep-float", "ip1", *options)
    assert forgotten.stderr == (
        "warning: --scales, --keep-float have no effect: the precision is neither int8 nor fp8\n"
    )


def test_layers_that_stay_float() -> None:
    assert quantized_layers() == ["conv2", "ip1", "lstm1", "lstm1", "lstm2", "lstm2"]
    assert quantized_layers("--keep-float", "ip1", "--keep-float", "lstm2") == ["conv2", "lstm1", "lstm1"]


def test_the_first_and_the_last_layer_are_quantized_on_request() -> None:
    assert quantized_layers("--quantize-all") == [
        "conv1",
        "conv2",
        "ip1",
        *["lstm1", "lstm1", "lstm2", "lstm2"],
        "score",
    ]


@pytest.mark.parametrize("option", ["--scales", "--calibration-cache"])
def test_the_sample_is_read_in_int8_as_caffe_reads_it(
    option: str, scales: dict[str, str], tmp_path: Path
) -> None:
    target = str(tmp_path / "out.npz")
    precision = ["--precision", "int8", option, scales[option]]
    result = done("run", DEPLOY, WEIGHTS, "--inputs", STRIPS, "-o", target, *precision)
    expected, found = np.load(DIGITS / "strips_out.npz"), np.load(target)
    assert result.stderr == ""
    for name in expected.files:
        np.testing.assert_array_equal(found[name].argmax(-1), expected[name].argmax(-1))
        difference = np.abs(found[name] - expected[name]).max()
        assert 1e-4 < difference < 0.1  # it is int8


@pytest.mark.trt
def test_a_batch_quantizes_where_the_matrix_says_so(
    scales: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "Worker", InThisProcess)
    Path("models.yaml").write_text(
        f"defaults: {{backend: rtx, scales: '{scales['--scales']}'}}\n"
        f"models: [{{prototxt: '{DEPLOY}', weights: '{WEIGHTS}', name: net,"
        f" matrix: {{precision: [fp32, int8], keep-float: [[], [ip1]]}}}}]\n"
    )
    result = CliRunner().invoke(main, ["batch", "models.yaml", "-o", "out"])
    assert result.exit_code == 0, result.output
    manifests = {path.name: json.loads(path.read_text()) for path in Path("out").glob("*.json")}
    assert sorted(manifest["precision"] for manifest in manifests.values()) == [
        "fp32",
        "fp32",
        "int8",
        "int8",
    ]
    for manifest in manifests.values():
        is_quantized = manifest["precision"] == "int8"
        assert ("scales" in manifest["sources"]) is is_quantized
        if is_quantized:
            assert manifest["sources"]["scales"]["sha256"] == sha256_of(scales["--scales"])


def test_blobs_without_a_scale_leave_their_layers_in_float(tmp_path: Path) -> None:
    file = tmp_path / "scales.json"
    file.write_text(
        Scales({"pool1": ValueScale(0.04), "pool2": ValueScale(0.0), "gone": ValueScale(1.0)}).text()
    )
    result = run("inspect", DEPLOY, "--stage", "rewritten", "--precision", "int8", "--scales", str(file))
    assert result.exit_code == 0
    assert result.stderr.splitlines()[:2] == [
        f"warning: {file}: not used, because the net has no such blob: gone",
        f"warning: {file}: not used, because the scale is 0: pool2",
    ]
    assert 'layer "ip1" (InnerProduct): is not quantized: there is no scale for its input "pool2"' in (
        result.stderr
    )


def test_verify_names_values_that_the_scales_clip(tmp_path: Path) -> None:
    file = tmp_path / "scales.json"
    small = Scales(
        {
            "pool1": ValueScale(1.0),
            "pool2": ValueScale(0.001),
            "ip1": ValueScale(1.0),
            "lstm1": ValueScale(1.0),
        }
    )
    file.write_text(small.text())
    arguments = ["--inputs", STRIPS, "--precision", "int8", "--scales", str(file), "--on", "onnx"]
    result = run("verify", DEPLOY, WEIGHTS, *arguments)
    (warning,) = [line for line in result.stderr.splitlines() if "beyond" in line]
    assert warning.startswith("warning: more than 1% of the numbers are beyond the range of 8 bits: ")


def test_int8_without_scales() -> None:
    result = run("run", DEPLOY, WEIGHTS, "--inputs", STRIPS, "-o", "out.npz", "--precision", "int8")
    assert result.exit_code == 2
    assert result.stderr.partition("Error: ")[2] == (
        "--precision int8 needs the ranges of the values of the net\n"
        "  fix: measure them with `prototrt calibrate`, and give --scales scales.json\n"
    )
