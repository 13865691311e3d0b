"""``prototrt run``: what Caffe computes, from call to call."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.tests.caffe2_cases import GOLDENS
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, done, run, strips
from prototrt.tests.npz import write_npz

STREAM_IN = str(Path(DEPLOY).with_name("stream_in.npz"))


@pytest.mark.parametrize("on", ["reference", pytest.param("network", marks=pytest.mark.trt), "onnx"])
def test_run_reads_a_strip_as_caffe_does(tmp_path: Path, on: Way) -> None:
    expected = strips()
    cont = np.ones((40, 1), np.float32)
    cont[0] = 0
    np.savez(tmp_path / "in.npz", data=expected["data"][0], cont=cont)
    target = str(tmp_path / "out.npz")
    result = done("run", DEPLOY, WEIGHTS, "--inputs", str(tmp_path / "in.npz"), "-o", target, "--on", on)
    np.testing.assert_allclose(np.load(target)["prob"], expected["prob"][0], atol=1e-5)
    assert result.stdout == (f"{target}: 1 call on {on}, prob 40x1x11\n")


@pytest.mark.parametrize(
    ("options", "is_installed", "on"),
    [
        ([], True, "onnx"),
        ([], False, "reference"),
        (["--precision", "fp16"], True, "reference"),
        (["--on", "reference"], True, "reference"),
    ],
)
def test_run_takes_onnxruntime_where_it_computes_the_same(
    options: list[str], is_installed: bool, on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    target = str(tmp_path / "out.npz")
    result = done("run", STREAM, WEIGHTS, "--inputs", STREAM_IN, "-o", target, *options)
    assert result.stdout == f"{target}: 40 calls on {on}, prob 1x1x11\n"
    assert json.loads(
        done("run", STREAM, WEIGHTS, "--inputs", STREAM_IN, "-o", target, *options, "--json").stdout
    )["on"] == on  # fmt: skip


@pytest.mark.parametrize("on", [None, "network"])
def test_run_on_a_device_that_the_way_does_not_have(on: str | None) -> None:
    way = [] if on is None else ["--on", on]
    result = run("run", STREAM, WEIGHTS, "--inputs", STREAM_IN, "-o", "out.npz", "--device", "cuda", *way)
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "\nError: --device is for --on onnx, onnx-lstm, torch\n  fix: use --on onnx\n"
    )


def test_run_and_verify_on_a_device(tmp_path: Path) -> None:
    """What the CPU computes is the same, however it is named; onnxruntime names the devices that it has."""
    arguments = [STREAM, WEIGHTS, "--inputs", STREAM_IN, "--on", "onnx", "--device"]
    target = str(tmp_path / "out.npz")
    for command in (["run", "-o", target, *arguments], ["verify", *arguments]):
        done(*command, "cpu")
        result = run(*command, "abacus")
        assert result.exit_code == 4
        assert "error: onnxruntime cannot compute on the device 'abacus': it has " in result.stderr


def test_run_takes_a_minidb_of_caffe2_without_weights(tmp_path: Path) -> None:
    folder, target = GOLDENS / "caffe2" / "lstm_minidb", tmp_path / "out.npz"
    sizes = ["data:5x2x4", "seq_lengths:2", "h:1x2x3", "c:1x2x3"]
    shapes = [part for size in sizes for part in ("--shape", size)]
    inputs = str(folder / "inputs.npz")
    done("run", str(folder / "model.minidb"), *shapes, "--inputs", inputs, "-o", str(target))
    expected = np.load(folder / "outputs.npz")["prob"]
    np.testing.assert_allclose(np.load(target)["prob"], expected, 1e-4, 2e-5)


def test_run_carries_state_from_call_to_call(tmp_path: Path) -> None:
    expected = strips()
    windows = expected["data"][expected["stream_index"][0]]
    feeds = {f"data/{t}": windows[t : t + 1] for t in range(40)}
    feeds |= {f"cont/{t}": np.full((1, 1), t > 0, np.float32) for t in range(40)}
    write_npz(tmp_path / "in.npz", feeds)
    target = str(tmp_path / "out.npz")
    done("run", STREAM, WEIGHTS, "--inputs", str(tmp_path / "in.npz"), "-o", target)
    results = np.load(target)
    for t in range(40):
        np.testing.assert_allclose(results[f"prob/{t}"], expected["stream_prob"][0, t : t + 1], atol=1e-5)


def test_run_takes_the_onnx_model_that_convert_wrote(tmp_path: Path) -> None:
    model, target = str(tmp_path / "net.onnx"), str(tmp_path / "out.npz")
    done("convert", STREAM, WEIGHTS, "-o", model)
    result = done("run", model, "--inputs", STREAM_IN, "-o", target)
    assert result.stdout == f"{target}: 40 calls on onnx, prob 1x1x11\n"
    np.testing.assert_allclose(
        np.load(target)["prob/39"], np.load(STREAM_IN.replace("_in", "_out"))["prob/39"], atol=1e-5
    )
    for arguments, message in (
        (["--on", "network"], f"--on network is for nets, but {model} is an ONNX model\n  fix: leave it out"),
        (
            ["--sequence", "loop"],
            f"--sequence is for nets, but {model} is an ONNX model\n  fix: leave it out",
        ),
        (["--trust"], f"--trust is for plans, but {model} is not a plan"),
    ):
        refused = run("run", model, "--inputs", STREAM_IN, "-o", target, *arguments)
        assert (refused.exit_code, refused.output.partition("\nError: ")[2]) == (2, f"{message}\n")


IMAGES = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } }
  transform_param { scale: 0.5 } }
layer { name: "y" type: "TanH" bottom: "data" top: "y" }
"""


def test_run_of_a_model_says_how_pixels_were_transformed_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(IMAGES)
    pillow.new("RGB", (30, 40)).save("image.png")
    done("convert", "net.prototxt", "-o", "net.onnx")
    run_it = ["run", "net.onnx", "--inputs", "image.png", "-o", "out.npz"]
    assert done(*run_it).stderr == (
        'warning: net.prototxt:2: layer "data" (Input): feed "data" transformed, as in training: times 0.5; or let the'
        " engine do it with --preprocess\n"
    )
    assert done(*run_it, "--scale", "0.5").stderr == ""
    done("convert", "net.prototxt", "--preprocess", "-o", "net.onnx")
    assert done(*run_it).stderr == ""


def test_images_take_the_usual_size_where_it_varies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(IMAGES.replace("scale: 0.5", ""))
    pillow.new("RGB", (30, 40)).save("image.png")
    sizes = ["--dynamic", "batch,size", "--size", "N=2..4", "--size", "H=4..10..16"]
    done("run", "net.prototxt", *sizes, "--inputs", "image.png", "-o", "out.npz")
    assert np.load("out.npz")["y"].shape == (2, 3, 10, 8)


def test_run_lists_the_inputs_that_are_not_given(tmp_path: Path) -> None:
    write_npz(tmp_path / "in.npz", {})
    target = tmp_path / "out.npz"
    result = run("run", DEPLOY, WEIGHTS, "--inputs", str(tmp_path / "in.npz"), "-o", str(target))
    assert result.exit_code == 3
    assert "data" in result.stderr
    assert "(40, 1, 32, 16)" in result.stderr
    assert "cont" in result.stderr
    assert not target.exists()


def test_state_from_nowhere_and_from_a_file(tmp_path: Path) -> None:
    """Zero state, and a file of zeros, give what the first of several calls gives."""
    inputs, states = tmp_path / "in.npz", tmp_path / "state.npz"
    random = np.random.default_rng(1)
    np.savez(
        inputs,
        data=random.random((1, 1, 32, 16), np.float32),
        cont=np.ones((1, 1), np.float32),
    )
    first = prototrt.rewrite(prototrt.load(STREAM, WEIGHTS))
    shapes = {value.name: value.shape for value in first.state_inputs}
    np.savez(states, **{name: np.zeros([int(dim) for dim in shape]) for name, shape in shapes.items()})  # type: ignore[arg-type]  # a keyword is an array
    results = []
    for state in (["bind"], ["zero"], ["const", str(states)]):
        out = tmp_path / f"{state[0]}.npz"
        done(
            "run", STREAM, WEIGHTS, "--inputs", str(inputs), "--state", *state, "--calls", "2", "-o", str(out)
        )
        results.append(np.load(out))
    bound, zero, constant = results
    np.testing.assert_array_equal(zero["prob/0"], bound["prob/0"])
    np.testing.assert_array_equal(zero["prob/1"], bound["prob/0"])
    np.testing.assert_array_equal(constant["prob/1"], bound["prob/0"])
    assert not np.array_equal(bound["prob/1"], bound["prob/0"])
