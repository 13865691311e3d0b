"""``--layout batch-first`` on the command line: the batch in front, and Caffe's numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, done, strips
from prototrt.tests.npz import write_npz

BATCH_FIRST = ("--layout", "batch-first")
BINDINGS = [
    "input    data 1x40x1x32x16 (N, T, 1, 32, 16)",
    "input    cont 1x40 (N, T)",
    "output   prob 1x40x11 (N, T, 11)",
    "state    lstm1_h_T -> lstm1_h_0 1x64 (N, 64)",
    "state    lstm1_c_T -> lstm1_c_0 1x64 (N, 64)",
    "state    lstm2_h_T -> lstm2_h_0 1x48 (N, 48)",
    "state    lstm2_c_T -> lstm2_c_0 1x48 (N, 48)",
]


@pytest.mark.parametrize("suffix", [pytest.param("plan", marks=pytest.mark.trt), "onnx"])
def test_convert_says_what_the_axes_are(suffix: str, tmp_path: Path) -> None:
    target = tmp_path / f"digits.{suffix}"
    lines = done("convert", DEPLOY, WEIGHTS, "-o", str(target), *BATCH_FIRST).stdout.splitlines()
    assert lines[2:9] == BINDINGS
    manifest = json.loads(Path(f"{target}.json").read_text())
    assert manifest["layout"] == "batch-first"
    axes = {one["name"]: one["axes"] for one in (*manifest["inputs"], *manifest["outputs"])}
    assert axes["data"] == ["N", "T", None, None, None]
    assert axes["cont"] == ["N", "T"]
    assert axes["lstm1_h_0"] == axes["lstm1_h_T"] == ["N", None]


def test_inspect() -> None:
    lines = done("inspect", DEPLOY, *BATCH_FIRST).stdout.splitlines()
    assert lines[-6:] == [
        "inputs   data 1x40x1x32x16 (N, T, 1, 32, 16), cont 1x40 (N, T)",
        "outputs  prob 1x40x11 (N, T, 11)",
        *BINDINGS[3:],
    ]


def test_dot_draws_the_moves() -> None:
    assert "in_caffe_layout" in done("dot", DEPLOY, "--stage", "rewritten", *BATCH_FIRST).stdout


def test_run_streams_frames_of_several_strips(tmp_path: Path) -> None:
    """One frame of each of two strips in a call, (N, C, H, W), and cont (N, 1)."""
    expected = strips()
    windows = np.stack([expected["data"][expected["stream_index"][strip]] for strip in (0, 1)], 1)
    feeds = {f"data/{t}": windows[t] for t in range(40)}
    feeds |= {f"cont/{t}": np.full((2, 1), t > 0, np.float32) for t in range(40)}
    write_npz(tmp_path / "in.npz", feeds)
    target = str(tmp_path / "out.npz")
    net = tmp_path / "streams.prototxt"
    net.write_text(Path(STREAM).read_text().replace("dim: -1 dim: 1 dim: 64", "dim: 1 dim: -1 dim: 64"))
    shapes = ("--shape", "data:2x1x32x16", "--shape", "cont:1x2")
    files = ("--inputs", str(tmp_path / "in.npz"), "-o", target)
    done("run", str(net), WEIGHTS, *files, *shapes, *BATCH_FIRST)
    results = np.load(target)
    for t in range(40):
        wanted = expected["stream_prob"][[0, 1], t].reshape(2, 11)
        np.testing.assert_allclose(results[f"prob/{t}"], wanted, atol=1e-5)


def test_verify_compares_in_caffe_layout(tmp_path: Path) -> None:
    expected = strips()
    cont = np.ones((40, 1), np.float32)
    cont[0] = 0
    np.savez(tmp_path / "in.npz", data=expected["data"][0], cont=cont)
    np.savez(tmp_path / "out.npz", prob=expected["prob"][0])
    files = ("--inputs", str(tmp_path / "in.npz"), "--expect", str(tmp_path / "out.npz"))
    facts = json.loads(done("verify", DEPLOY, WEIGHTS, *files, "--on", "onnx", "--json", *BATCH_FIRST).stdout)
    pairs = [(item["way"], item["against"]) for item in facts["comparisons"]]
    assert ("reference", "expected") in pairs
    assert ("onnx", "expected") in pairs
