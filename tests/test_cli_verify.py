"""``prototrt verify``: tables, JSON, and the exit code of a broken tolerance."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile
from prototrt.cli import main
from prototrt.converter.options import WAY_NAMES
from prototrt.converter.running.sessions.session import ENGINE, WAYS
from prototrt.surgery.ir import Array
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run, strips


def test_the_ways_are_those_of_a_session() -> None:
    assert (*WAYS, ENGINE) == WAY_NAMES


def test_verify_prints_a_table() -> None:
    result = done("verify", DEPLOY, WEIGHTS, "--on", "onnx", "--calls", "2", "--layers")
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith(" onnx ")]
    assert ["reference", "lstm1", "lstm1"] in [row[1:4] for row in rows]
    assert len(rows) > 15
    allowed, covers, verdict = result.stdout.splitlines()[-3:]
    assert covers == (
        "compared: this conversion and prototrt's reading of the net, not the outputs of Caffe or your program:"
        " give them with --expect FILE.npz"
    )
    assert allowed == "2 calls, fp32: max abs may be 1e-06 + 0.0001 of the largest magnitude"
    assert re.fullmatch(r"PASS: 2 ways agree within \de-0\d", verdict)


@pytest.mark.trt
def test_ways_that_are_named_one_by_one() -> None:
    result = done("verify", DEPLOY, WEIGHTS, "--on", "onnx", "--on", "reference,network", "--on", "onnx")
    ways = [
        line.split()[0] for line in result.stdout.splitlines() if line.startswith((" onnx ", " network "))
    ]
    assert [*dict.fromkeys(ways)] == ["onnx", "network"]
    assert "PASS: 3 ways agree" in result.stdout


def test_a_device_for_ways_that_compute_in_numpy() -> None:
    result = run("verify", DEPLOY, WEIGHTS, "--on", "network", "--device", "cuda")
    assert result.exit_code == 2
    assert result.stderr == (
        "Usage: prototrt verify [OPTIONS] MODEL [WEIGHTS]\n"
        "Try 'prototrt verify --help' for help.\n\n"
        "Error: --device cuda has no effect\n"
        "  because only onnx, onnx-lstm, torch compute on a device\n"
        "  fix: use --on onnx\n"
    )


def test_a_stated_tolerance_decides_the_verdict() -> None:
    broken = run("verify", DEPLOY, WEIGHTS, "--on", "onnx", "--atol", "0", "--rtol", "1e-9")
    assert broken.exit_code == 5
    assert re.match(
        r"FAIL: onnx and reference differ by \S+ at blob \S+, \S+ is allowed", broken.stdout.splitlines()[-1]
    )
    assert broken.stderr.splitlines()[-1] == "  fix: allow more with --atol and --rtol"
    facts = json.loads(done("verify", DEPLOY, WEIGHTS, "--on", "onnx", "--atol", "1", "--json").stdout)
    assert facts["tolerance"] == {"relative": 0.0001, "absolute": 1.0}


def test_comparing_nothing_is_refused() -> None:
    result = run("verify", DEPLOY, WEIGHTS, "--on", "reference")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "Error: --on reference compares nothing\n"
        "  because every way is compared with reference\n"
        "  fix: name another way, as in --on network\n"
    )


@pytest.mark.parametrize(("option", "number"), [("--atol", "-1"), ("--rtol", "nan")])
def test_a_tolerance_is_a_number(option: str, number: str) -> None:
    result = run("verify", DEPLOY, WEIGHTS, option, number)
    assert result.exit_code == 2
    assert result.stderr.endswith(
        f"Error: {option} is {float(number)}, expected 0 or more\n  fix: use {option} 0.0001\n"
    )


def test_verify_expects_nothing_of_invented_inputs() -> None:
    result = CliRunner().invoke(main, ["verify", DEPLOY, WEIGHTS, "--expect", "out.npz"])
    assert result.exit_code == 3
    assert result.stderr == (
        "error: out.npz: there are expected outputs, but no inputs\n  fix: also give --inputs FILE.npz\n"
    )


def test_verify_with_what_caffe_computed(tmp_path: Path) -> None:
    expected, files = strips(), (str(tmp_path / "in.npz"), str(tmp_path / "out.npz"))
    cont = np.ones((40, 1), np.float32)
    cont[0] = 0
    np.savez(files[0], data=expected["data"][0], cont=cont)
    np.savez(files[1], prob=expected["prob"][0])
    arguments = ("verify", DEPLOY, WEIGHTS, "--inputs", files[0], "--expect", files[1], "--json")
    facts = json.loads(done(*arguments, "--on", "onnx").stdout)
    assert facts["holds"]
    assert ("onnx", "expected") in [(item["way"], item["against"]) for item in facts["comparisons"]]

    np.savez(files[1], prob=expected["prob"][1])  # of another strip
    result = run(*arguments, "--on", "onnx")
    assert result.exit_code == 5
    assert not json.loads(result.stdout)["holds"]
    assert 'layer "prob" (Softmax), blob "prob": reference and expected diverge here' in result.stderr


def test_verify_with_outputs_of_other_calls(tmp_path: Path) -> None:
    inputs, expected = str(tmp_path / "in.npz"), str(tmp_path / "out.npz")
    np.savez(inputs, data=strips()["data"][0], cont=np.ones((40, 1), np.float32))
    arguments = ("verify", DEPLOY, WEIGHTS, "--inputs", inputs, "--expect", expected)
    done("run", DEPLOY, WEIGHTS, "--inputs", inputs, "--calls", "3", "-o", expected)
    result = run(*arguments)
    assert result.exit_code == 3
    assert result.stderr == (
        f"error: {expected}: has arrays for call 2, but there is only call 0\n"
        "  fix: give inputs for as many calls; one call's inputs are repeated with --calls 3\n"
    )
    assert run(*arguments, "--calls", "3").stderr == ""
    assert (
        f"{expected}: not compared: call 3, 4, for which it has no arrays"
        in run(*arguments, "--calls", "5").stderr
    )


def test_verify_names_the_ways_there_are() -> None:
    result = run("verify", DEPLOY, WEIGHTS, "--on", "network,paper")
    assert result.exit_code == 2
    assert (
        "--on is 'paper', expected one of reference, network, onnx, onnx-lstm, torch, tensorrt-python, opencv,"
        " openvino, openvino-f32, engine" in result.stderr
    )


def test_verify_expects_only_what_is_computed(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("in.npz", "out.npz")]
    np.savez(files[0], data=strips()["data"][0], cont=np.ones((40, 1)))
    np.savez(files[1], prob=strips()["prob"][0], porb=np.zeros(3))
    result = run("verify", DEPLOY, WEIGHTS, "--inputs", files[0], "--expect", files[1])
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        3,
        'error: the expected outputs hold "porb", which is not computed',
    )


def test_verify_reads_no_expected_outputs_of_another_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(tmp_path / name) for name in ("in.npz", "out.npz")]
    np.savez(files[0], data=strips()["data"][0], cont=np.ones((40, 1)))
    np.savez(files[1], prob=strips()["prob"][0][:-1])
    read: list[str] = []

    def load(file: ArraysOfFile, names: Collection[str]) -> dict[str, Array]:
        read.append(file.file)
        return loaded(file, names)

    loaded = ArraysOfFile.load
    monkeypatch.setattr(ArraysOfFile, "load", load)
    result = run("verify", DEPLOY, WEIGHTS, "--inputs", files[0], "--expect", files[1])
    assert (result.exit_code, result.stderr) == (
        3,
        f'error: {files[1]}: the expected "prob" has the shape (39, 1, 11), the computed one (40, 1, 11)\n'
        "  fix: save the outputs that were computed from these inputs\n",
    )
    assert read == [files[0]]


def test_verify_refuses_to_expect_nothing(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("in.npz", "out.npz")]
    np.savez(files[0], data=strips()["data"][0], cont=np.ones((40, 1)))
    np.savez(files[1])
    result = run("verify", DEPLOY, WEIGHTS, "--inputs", files[0], "--expect", files[1])
    assert (result.exit_code, result.stderr) == (
        3,
        f"error: {files[1]}: holds no arrays, so there is nothing to compare with\n"
        "  fix: save the expected outputs in it by their names, as in numpy.savez(file, NAME=array)\n",
    )
