"""``run`` and ``verify`` take what ``calibrate`` takes: arrays, folders, images, Python functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototrt.surgery.ir import Array
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run
from prototrt.tests.npz import write_npz

NET = """
name: "net"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 4 } } }
layer { name: "power" type: "Power" bottom: "x" top: "twice" power_param { scale: 2 } }
layer { name: "relu" type: "ReLU" bottom: "twice" top: "twice" }
layer { name: "more" type: "Power" bottom: "twice" top: "y" power_param { shift: 1 } }
"""
SUMS = """
name: "sums"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 2 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 1 dim: 1 } } }
layer { name: "rnn" type: "RNN" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 2 } }
"""
IMAGE = np.full((1, 3, 2, 4), 3, np.float32)


@pytest.fixture
def net(tmp_path: Path) -> list[str]:
    file = tmp_path / "net.prototxt"
    file.write_text(NET)
    return [str(file), "--random-weights", "1"]


@pytest.fixture
def sums(tmp_path: Path) -> list[str]:
    file = tmp_path / "sums.prototxt"
    file.write_text(SUMS)
    return [str(file), "--random-weights", "1"]


def results(folder: Path, *arguments: str) -> dict[str, Array]:
    target = folder / "out.npz"
    done("run", *arguments, "-o", str(target))
    return dict(np.load(target))


def npy(folder: Path, count: int = 1) -> str:
    np.save(folder / "x.npy", np.concatenate([IMAGE * call for call in range(1, count + 1)]))
    return str(folder / "x.npy")


def npz(folder: Path, count: int = 1) -> str:
    np.savez(folder / "x.npz", x=np.load(npy(folder, count)))
    return str(folder / "x.npz")


def images(folder: Path) -> str:
    (folder / "images").mkdir()
    for name, color in (("a", 1), ("b", 2)):
        Image.new("RGB", (4, 2), (color, color, color)).save(folder / "images" / f"{name}.png")
    return str(folder / "images")


def loader(folder: Path) -> str:
    (folder / "load.py").write_text(
        "import numpy as np\ndef batches():\n"
        "    for call in (1, 2, 3):\n        yield {'x': np.full((1, 3, 2, 4), call)}\n"
    )
    return f"{folder / 'load.py'}:batches"


SOURCES: list[tuple[str, Callable[[Path], Sequence[str]], Sequence[float]]] = [
    ("one array", lambda folder: ["--inputs", npy(folder)], [3]),
    ("an array of several calls", lambda folder: ["--inputs", npy(folder, 3)], [3, 6, 9]),
    ("an npz file with an array of several calls", lambda folder: ["--inputs", npz(folder, 3)], [3, 6, 9]),
    ("its first calls", lambda folder: ["--inputs", npz(folder, 3), "--calls", "2"], [3, 6]),
    ("an array for all calls", lambda folder: ["--inputs", npy(folder), "--calls", "2"], [3, 3]),
    ("the first calls", lambda folder: ["--inputs", npy(folder, 3), "--calls", "2"], [3, 6]),
    ("a folder of images", lambda folder: ["--inputs", images(folder)], [1, 2]),
    ("an image", lambda folder: ["--inputs", f"{images(folder)}/b.png"], [2]),
    ("a function", lambda folder: ["--data-loader", loader(folder)], [1, 2, 3]),
    (
        "prepared images",
        lambda folder: [
            "--inputs",
            images(folder),
            "--mean",
            "1",
            "--scale",
            "10",
            "--channels",
            "rgb",
            "--resize",
            "2x4",
        ],
        [0, 10],
    ),
]


@pytest.mark.parametrize(
    ("source", "expected"), [case[1:] for case in SOURCES], ids=[case[0] for case in SOURCES]
)
def test_run_takes_it(
    source: Callable[[Path], Sequence[str]], expected: Sequence[float], net: list[str], tmp_path: Path
) -> None:
    found = results(tmp_path, *net, *source(tmp_path))
    keys = ["y"] if len(expected) == 1 else [f"y/{call}" for call in range(len(expected))]
    assert list(found) == keys
    assert [found[key].max() for key in keys] == [2 * number + 1 for number in expected]


@pytest.mark.parametrize("source", [case[1] for case in SOURCES], ids=[case[0] for case in SOURCES])
def test_verify_takes_it(source: Callable[[Path], Sequence[str]], net: list[str], tmp_path: Path) -> None:
    facts = json.loads(done("verify", *net, "--on", "onnx", *source(tmp_path), "--json").stdout)
    assert facts["holds"]


def test_each_file_of_a_folder_starts_anew(sums: list[str], tmp_path: Path) -> None:
    """The second call of a file goes on from the first; the next file does not."""
    folder = tmp_path / "calls"
    folder.mkdir()
    feeds = {"x": np.ones((1, 1, 2), np.float32), "cont": np.ones((1, 1), np.float32)}
    twice = {f"{name}/{call}": array for name, array in feeds.items() for call in range(2)}
    for name in ("a", "b"):
        write_npz(folder / f"{name}.npz", twice)
    found = results(tmp_path, *sums, "--inputs", str(folder))
    assert not np.allclose(found["y/0"], found["y/1"])
    np.testing.assert_array_equal(found["y/0"], found["y/2"])
    np.testing.assert_array_equal(found["y/1"], found["y/3"])
    expected = {name.replace("y", "y", 1): array for name, array in found.items()}
    write_npz(tmp_path / "expected.npz", expected)
    arguments = ["--inputs", str(folder), "--expect", str(tmp_path / "expected.npz"), "--on", "onnx"]
    assert (
        done("verify", *sums, *arguments)
        .stdout.splitlines()[-1]
        .startswith("PASS: 2 ways agree with the expected")
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Error: there are no inputs\n  fix: give --inputs FILE or --data-loader FILE.py\n"),
        (
            ["--inputs", "a.npz", "--data-loader", "b.py"],
            2,
            "Error: there are two sources of inputs\n  fix: give --inputs FILE or --data-loader FILE.py\n",
        ),
        (
            ["--inputs", "{x}", "--calls", "5"],
            3,
            "error: there are inputs for 3 calls, expected 5\n  fix: leave out --calls, or use --calls 3\n",
        ),
    ],
)
def test_run_refuses(arguments: list[str], code: int, message: str, net: list[str], tmp_path: Path) -> None:
    given = [argument.replace("{x}", npy(tmp_path, 3)) for argument in arguments]
    result = run("run", *net, *given, "-o", str(tmp_path / "out.npz"))
    assert (result.exit_code, result.stderr[-len(message) :]) == (code, message)


# ---------------------------------------------------------------- blobs


def test_all_blobs(net: list[str], tmp_path: Path) -> None:
    """As in Caffe's net.blobs: a blob that is written in place has its last value."""
    found = results(tmp_path, *net, "--inputs", npy(tmp_path), "--output", "all")
    assert {name: float(array.max()) for name, array in found.items()} == {"twice": 6, "y": 7}


def test_blobs_by_name(tmp_path: Path) -> None:
    inputs = {"data": np.zeros((40, 1, 32, 16), np.float32), "cont": np.ones((40, 1), np.float32)}
    write_npz(tmp_path / "in.npz", inputs)
    found = results(
        tmp_path,
        DEPLOY,
        WEIGHTS,
        "--inputs",
        str(tmp_path / "in.npz"),
        "--output",
        "lstm1",
        "--output",
        "prob",
    )
    every = results(tmp_path, DEPLOY, WEIGHTS, "--inputs", str(tmp_path / "in.npz"), "--output", "all")
    assert list(found) == ["lstm1", "prob"]
    assert {"conv1", "pool2", "ip1", "lstm1", "score", "prob"} <= every.keys()
    np.testing.assert_array_equal(found["lstm1"], every["lstm1"])


# ---------------------------------------------------------------- names of what is written


@pytest.mark.parametrize(
    ("command", "option", "target", "expected"),
    [
        ("convert", "-o", "x.pb", ".plan, .engine, .trt, .onnx or .py"),
        ("convert", "-o", "x.prototxt", ".plan, .engine, .trt, .onnx or .py"),
        ("convert", "--emit-header", "x.c", ".h, .hh, .hpp or .hxx"),
        ("deploy", "-o", "x.caffemodel", ".prototxt, .pbtxt or .txt"),
        ("run", "-o", "x.npy", ".npz"),
        ("run", "--draw", "x.jpg", ".png"),
        ("calibrate", "-o", "x.txt", ".json"),
        ("survey", "-o", "x.pdf", ".json"),
    ],
)
def test_a_suffix_that_nobody_writes(command: str, option: str, target: str, expected: str) -> None:
    result = run(command, DEPLOY, option, target)
    assert result.exit_code == 2
    suffix = Path(target).suffix
    assert (
        f"""Invalid value for '{option}': "{target}" ends in {suffix}, expected {expected}\n"""
        in result.stderr
    )


@pytest.mark.parametrize("name", ["engine", "net-1.2", "NET.PLAN", "a.engine", "b.trt"])
def test_names_of_engines(name: str, tmp_path: Path) -> None:
    done("convert", DEPLOY, WEIGHTS, "-o", str(tmp_path / name))
    assert (tmp_path / name).stat().st_size > 1000
