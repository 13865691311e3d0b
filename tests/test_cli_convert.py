"""``prototrt convert``: what it writes, what it refuses, and that it leaves nothing half done."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototrt.cli import convert_main
from prototrt.converter.checking.verification.comparison import Tolerance
from prototrt.converter.files.writing.ownership import DATA_MARK
from prototrt.converter.front.commandline.commands.converting import convert
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, done, run
from prototrt.tests.fresh_python import ROOT, run_python


@pytest.mark.trt
def test_convert_writes_plan_and_manifest(tmp_path: Path) -> None:
    target = tmp_path / "digits.plan"
    result = done("convert", DEPLOY, WEIGHTS, "-o", str(target), "--backend", "rtx")
    assert sorted(os.listdir(tmp_path)) == ["digits.plan", "digits.plan.json"]
    runs_on, first, *states, last = result.stdout.splitlines()
    assert first.startswith("digits: 19 Caffe layers -> ")
    assert [state.split()[1:4] for state in states] == [
        [f"{layer}_{state}_T", "->", f"{layer}_{state}_0"] for layer in ("lstm1", "lstm2") for state in "hc"
    ]
    assert runs_on.startswith("runs on  TensorRT for RTX ")
    assert runs_on.endswith(": GeForce and RTX GPUs of compute capability 8.0, 8.6, 8.9, 12.0 and newer")
    assert last.startswith(f"{target}: ")


def test_convert_writes_onnx_by_the_suffix(tmp_path: Path) -> None:
    target = tmp_path / "digits.onnx"
    result = done("convert", DEPLOY, WEIGHTS, "-o", str(target), "--verify", "--cont", "drop", "--onnx-lstm")
    assert sorted(os.listdir(tmp_path)) == ["digits.onnx", "digits.onnx.json"]
    runs_on, first, *_, verified, last = result.stdout.splitlines()
    assert first.endswith(" ONNX nodes, an operator for 2 of 2 recurrences")
    assert verified.startswith("verified onnx-lstm in 2 calls: off by at most ")
    assert runs_on == "runs on  any program that reads ONNX, opset 17: onnxruntime, TensorRT's trtexec"
    assert last.startswith(f"{target}: 438.5 kB, ")
    verification = json.loads((tmp_path / "digits.onnx.json").read_text())["verification"]
    assert verification["holds"]
    assert {"prob", "lstm1_h_T"} <= {item["blob"] for item in verification["comparisons"]}


def test_a_net_without_parameters_needs_no_weights(tmp_path: Path) -> None:
    """Also where the user states its shape; a layer with parameters still asks for them."""
    net, target = tmp_path / "net.prototxt", str(tmp_path / "net.onnx")
    net.write_text(
        'layer { name: "i" type: "Input" top: "x" } layer { name: "r" type: "ReLU" bottom: "x" top: "y" }'
    )
    assert done("convert", str(net), "--shape", "x:2x3", "-o", target).stderr == ""
    assert "PASS" in done("verify", str(net), "--shape", "x:2x3", "--on", "onnx").stdout
    net.write_text(net.read_text().replace("ReLU", "PReLU"))
    result = run("convert", str(net), "--shape", "x:2x3", "-o", target)
    assert result.exit_code == 2
    assert "the model has no weights" in result.stderr


def test_a_net_that_fails_without_weights_is_told_why(tmp_path: Path) -> None:
    """Weights would not help a misspelt layer, nor a net that reads none."""
    net, target = tmp_path / "net.prototxt", str(tmp_path / "net.onnx")
    net.write_text(
        'layer { name: "i" type: "Input" top: "x" } layer { name: "r" type: "ReLU" bottom: "x" top: "y" }'
    )
    assert run("convert", str(net), "-o", target).stderr.startswith(
        f'error: {net}: the file states no shape for the input "x" (line 1)\n'
    )
    net.write_text(net.read_text().replace("ReLU", "ReLUU"))
    assert run("convert", str(net), "--shape", "x:2x3", "-o", target).stderr.startswith(
        f'error: {net}:1: layer "r" (ReLUU): there is no rule for this layer type'
    )
    net.write_text(net.read_text().replace("ReLUU", "InnerProduct"))  # whose weights tell what fits
    assert "the model has no weights" in run("convert", str(net), "-o", target).stderr


def test_convert_says_that_a_verification_proves_little(tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "i" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }'
        'layer { name: "c" type: "Clip" bottom: "x" top: "y" clip_param { min: 5 max: 6 } }'
    )
    result = done("convert", str(net), "--verify", "-o", str(tmp_path / "net.onnx"))
    assert result.stderr == 'warning: output "y" is 5 at each of 6 elements: agreement on it proves little\n'
    assert "1 warning (above)" in result.stdout


@pytest.mark.trt
def test_convert_records_the_verification_of_an_engine(tmp_path: Path) -> None:
    done("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "digits.plan"), "--verify")
    manifest = json.loads((tmp_path / "digits.plan.json").read_text())
    assert manifest["verification"]["comparisons"][0]["way"] == "network"
    assert manifest["verification"]["holds"]


def test_convert_writes_nothing_that_fails_its_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = {"fp32": Tolerance(0, 1e-12, "nothing is ever that exact")}
    monkeypatch.setattr("prototrt.converter.checking.verification.comparison.TOLERANCES", tight)
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "digits.onnx"), "--verify")
    assert result.exit_code == 5
    assert 'layer "conv1" (Convolution), blob "conv1@conv1": onnx and reference diverge here' in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("suffix", "option", "message"),
    [
        ("onnx", "--tf32", "--tf32 is for engines, but FILE ends in .onnx"),
        ("onnx", "--keep-batch-norm", "--keep-batch-norm is for engines, but FILE ends in .onnx"),
        ("plan", "--onnx-lstm", "--onnx-lstm is for ONNX models, but FILE does not end in .onnx"),
    ],
)
def test_convert_refuses_options_of_the_other_target(
    tmp_path: Path, suffix: str, option: str, message: str
) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / f"digits.{suffix}"), option)
    assert result.exit_code == 2
    assert message in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.trt
def test_convert_is_a_command_of_its_own(tmp_path: Path) -> None:
    target = tmp_path / "digits.plan"
    result = CliRunner().invoke(convert, [DEPLOY, WEIGHTS, "-o", str(target), "-q"])
    assert (result.exit_code, result.output) == (0, "")
    assert target.stat().st_size > 0


def test_the_commands_are_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["convert", "-h"])
    monkeypatch.delattr(os, "fork")  # a child of the tests would run the rest of them
    with pytest.raises(SystemExit) as stopped:
        convert_main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: convert [OPTIONS] MODEL [WEIGHTS]\n")


@pytest.mark.trt
def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    """A real signal in the middle of the builder's work."""
    code = """
import os, signal, sys
from prototrt.cli import main
from prototrt.converter.front.commandline.progress import BuildProgress
step = BuildProgress.step
def interrupting_step(self, name, number):
    os.kill(os.getpid(), signal.SIGINT)
    return step(self, name, number)
BuildProgress.step = interrupting_step
main(sys.argv[1:])
"""
    result = run_python("-c", code, "convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "a.plan"), check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "stopped\n")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- models that are wrong

BAD = ROOT / "tests" / "goldens" / "bad"


@pytest.mark.parametrize("case", [case["case"] for case in json.loads((BAD / "index.json").read_text())])
def test_a_bad_model_is_one_message_and_no_file(case: str, tmp_path: Path) -> None:
    prototxt, weights = BAD / case / "model.prototxt", BAD / case / "model.caffemodel"
    result = run("convert", str(prototxt), str(weights), "-o", str(tmp_path / "a.plan"))
    assert (result.exit_code, result.stdout) == (3, "")
    first, *rest = result.stderr.splitlines()
    assert first.startswith((f"error: {prototxt}", f"error: {weights}"))
    assert all(line.startswith(("  because ", "  fix: ")) for line in rest)
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- sizes and states


@pytest.mark.trt
def test_one_engine_for_any_number_of_windows(tmp_path: Path) -> None:
    plan = tmp_path / "digits.plan"
    ranges = ["--min-shapes", "data:1x1x32x16,cont:1x1", "--max-shapes", "data:100x1x32x16,cont:100x1"]
    done("convert", DEPLOY, WEIGHTS, "-o", str(plan), *ranges)
    facts = json.loads((tmp_path / "digits.plan.json").read_text())
    assert facts["inputs"][0] == {
        "name": "data",
        "dtype": "float32",
        "shape": ["T", 1, 32, 16],
        "axes": ["T*N", None, None, None],
        "profile": {"T": [1, 40, 100]},
    }
    assert facts["inputs"][1]["shape"] == ["T", 1]


def test_ranges_of_what_is_no_input(tmp_path: Path) -> None:
    result = run("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "x.plan"), "--max-shapes", "image:9x9")
    assert result.exit_code == 3
    assert 'a shape is given for "image", which is not an input' in result.stderr


def test_state_must_be_a_known_one(tmp_path: Path) -> None:
    result = run("convert", STREAM, WEIGHTS, "-o", str(tmp_path / "a.plan"), "--state", "const")
    assert result.exit_code == 2
    assert '"const" is not one of bind, zero, const FILE.npz' in result.stderr


def test_a_warning_of_the_log_reads_as_others(tmp_path: Path) -> None:
    result = done("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / "digits.onnx"), "--onnx-lstm")
    assert result.stderr.splitlines() == [
        f'warning: {DEPLOY}:{line}: layer "{layer}" (LSTM): stays a Scan: cont resets its states, and'
        " ONNX's operators have no reset: use --cont drop if every step continues, or --shape with T = 1, or let the"
        " net itself state where at most 32 sequences start, in all streams at once"
        for layer, line in (("lstm1", 123), ("lstm2", 131))
    ]


SPELLINGS = {
    "--builder-optimization-level 4": "--builderOptimizationLevel=4",
    "--export-layer-info layers.json": "--exportLayerInfo=layers.json",
    "--hardware-compatibility-level ampere+": "--hardwareCompatibilityLevel=ampere+",
    "--profiling-verbosity detailed": "--profilingVerbosity=detailed",
    "--refit": "--refit",
    "--strip-weights": "--stripWeights",
    "--version-compatible": "--versionCompatible",
}


def test_the_builders_options_go_into_the_command_of_trtexec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx", reason="writes a model")
    monkeypatch.chdir(tmp_path)
    ours = [word for spelling in SPELLINGS for word in spelling.split()]
    done("convert", STREAM, WEIGHTS, "--target", "datacenter", "-o", "net.onnx", *ours)
    script = Path("net.onnx.sh").read_text()
    assert [spelling for spelling in SPELLINGS.values() if f" {spelling} " not in script] == []


def test_no_file_of_an_earlier_conversion_stays_beside_the_new_one(tmp_path: Path) -> None:
    net, model = tmp_path / "net.prototxt", tmp_path / "net.onnx"
    net.write_text(
        "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 } } }"
        "layer { name: 'y' type: 'ReLU' bottom: 'x' top: 'y' }"
    )
    convert = ["convert", str(net), "--random-weights", "1", "-o", str(model)]
    done(*convert, "--target", "datacenter")
    script, weights = tmp_path / "net.onnx.sh", tmp_path / "net.onnx.data"
    assert script.exists()
    weights.write_bytes(DATA_MARK + b"of a larger model")
    other = tmp_path / "net.onnx.notes"
    other.write_text("of the user")
    done(*convert)
    assert sorted(tmp_path.iterdir()) == sorted([net, model, tmp_path / "net.onnx.json", other])
