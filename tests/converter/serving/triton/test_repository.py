"""`prototrt triton`: the files of a model, what is told about them, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prototrt.converter.serving.triton import repository
from prototrt.converter.serving.triton.config import config_of
from prototrt.tests.command_line import STREAM, WEIGHTS, done, run
from prototrt.tests.converter.serving.triton.nets import LSTM, POOLING, ROWS, frames, lstm, lstm_of_one_stream
from prototrt.tests.small_nets import inputs_of
from prototrt.tests.surgery.test_mixed_steps import convolution, steps
from prototrt.tests.surgery.test_mixed_steps import lstm as lstm_layer

ROOT = Path(__file__).parents[3]
GOLDENS = ROOT / "goldens" / "triton"
TWO_CONTS = (
    inputs_of({"x": (1, 1, 3), "cont": (1, 1), "cont2": (1, 1)})
    + LSTM
    + LSTM.replace("cont", "cont2").replace('"y"', '"z"').replace('"x"', '"y"').replace('"lstm"', '"lstm2"')
)
FILTER = 'layer { name: "f" type: "Filter" bottom: "x" bottom: "s" top: "y" }'
RANGES = ("--min-shapes", "x:1x1x3,cont:1x1", "--max-shapes", "x:9x1x3,cont:9x1")
EXPOSED = """
layer {
  name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" bottom: "h0" bottom: "c0" top: "y" top: "hT" top: "cT"
  recurrent_param { num_output: 4 expose_hidden: true }
}
"""
CONFIGS = {
    "images": (inputs_of({"x": (1, 2, 4, 4)}) + POOLING, ()),
    "images on Python": (inputs_of({"x": (1, 2, 4, 4)}) + POOLING, ("--platform", "python")),
    "steps": (lstm(), ()),
    "steps on Python": (lstm(), ("--platform", "python", "--max-batch-size", "3")),
    "steps with TensorRT": (lstm(), ("--platform", "tensorrt")),
    "several steps": (lstm(3), ("--platform", "python")),
    "any number of steps": (lstm(3), ("--platform", "python", *RANGES)),
    "any number of steps without cont": (lstm(3), ("--cont", "drop", *RANGES)),
    "one stream": (lstm_of_one_stream(), ("--platform", "python")),
    "a stream in pieces": (
        inputs_of({"x": (1, 2, 8, 5), "cont": (4, 1)})
        + convolution("x", "c", "kernel_h: 3 kernel_w: 1 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0")
        + steps("c")
        + lstm_layer("s"),
        ("--stream", "2"),
    ),
    "no batch": (inputs_of({"x": (1, 2, 4, 4)}) + ROWS, ()),
    "any number of items": (inputs_of({"x": (4, 3), "s": (4, 1)}) + FILTER, ()),
    "exposed state": (
        inputs_of({"x": (1, 1, 3), "cont": (1, 1), "h0": (1, 1, 4), "c0": (1, 1, 4)}) + EXPOSED,
        (),
    ),
}


def written(folder: Path, text: str) -> list[str]:
    """The arguments for a net with random weights."""
    path = folder / "net.prototxt"
    path.write_text(text)
    return [str(path), "--random-weights", "1"]


@pytest.mark.parametrize("case", CONFIGS)
def test_configs(case: str, tmp_path: Path, check_text: Callable[[Path, str], None]) -> None:
    text, options = CONFIGS[case]
    told = done("triton", *written(tmp_path, text), "-o", str(tmp_path / "models"), "--name", "m", *options)
    assert "warning" not in told.stderr
    found = (tmp_path / "models" / "m" / "config.pbtxt").read_text()
    check_text(GOLDENS / f"{case.replace(' ', '_')}.pbtxt", found)


@pytest.mark.parametrize("case", sorted(path.name for path in GOLDENS.glob("*.pbtxt")))
def test_triton_s_messages_read_the_configs(case: str) -> None:
    messages = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="no tritonclient here")
    from google.protobuf import text_format

    config = text_format.Parse((GOLDENS / case).read_text(), messages.ModelConfig())
    assert config.name == "m"
    assert config.input
    assert all(tensor.dims for tensor in (*config.input, *config.output))


def test_the_sample(tmp_path: Path) -> None:
    labels = tmp_path / "classes.txt"
    labels.write_text("".join(f"{name}\n" for name in [*range(10), "none"]))
    folder = tmp_path / "models"
    told = done("triton", STREAM, WEIGHTS, "-o", str(folder), "--labels", str(labels)).output
    place = folder / "digits_stream"
    assert re.sub(r"[\d.]+ kB, [\d.]+ s", "SIZE, TIME", told) == (
        "digits_stream: onnxruntime, up to 8 sequences, whose state the server keeps; give sequence_id,"
        " sequence_start and sequence_end\n"
        "send     data 1x1x32x16\n"
        "receive  prob 1x11\n"
        f"{place}: SIZE, TIME\n"
        f"next     tritonserver --model-repository={folder}\n"
    )
    assert (place / "labels.txt").read_text() == labels.read_text()
    assert 'label_filename: "labels.txt"' in (place / "config.pbtxt").read_text()
    assert files(folder) == [
        "digits_stream/1/model.onnx",
        "digits_stream/1/model.onnx.json",
        "digits_stream/config.pbtxt",
        "digits_stream/labels.txt",
    ]


def files(folder: Path) -> list[str]:
    """All files below a folder, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.trt
def test_python_with_a_plan(tmp_path: Path) -> None:
    told = done(
        "triton", STREAM, WEIGHTS, "-o", str(tmp_path / "m"), "--platform", "python", "--backend", "rtx"
    ).output
    assert "next     install prototrt with its extra gpu in the Python of Triton\n" in told
    place = tmp_path / "m" / "digits_stream"
    assert files(place) == ["1/model.plan", "1/model.plan.json", "1/model.py", "config.pbtxt"]
    assert "kind: KIND_GPU" in (place / "config.pbtxt").read_text()


def test_tensorrt_without_a_gpu(tmp_path: Path) -> None:
    """There is a script for the machine that can build the plan."""
    told = done(
        "triton",
        *written(tmp_path, lstm()),
        "-o",
        str(tmp_path / "m"),
        "--name",
        "m",
        "--platform",
        "tensorrt",
    )
    place = tmp_path / "m" / "m"
    assert (
        f"next     run {place / '1' / 'model.onnx.sh'} in the container of Triton: it builds the plan\n"
        in told.output
    )
    text = (place / "1" / "model.onnx.sh").read_text()
    assert "--saveEngine=model.plan" in text
    assert "--maxShapes=x:8x3,cont:8x1,lstm_h_0:8x4,lstm_c_0:8x4" in text


@pytest.mark.parametrize("platform", ["onnxruntime", "python"])
def test_a_state_to_start_with(platform: str, tmp_path: Path) -> None:
    state = {"lstm_h_0": np.full((1, 1, 4), 2, np.float32), "lstm_c_0": np.full((1, 1, 4), 3, np.float32)}
    np.savez(tmp_path / "state.npz", **state)  # type: ignore[arg-type]  # its stub wants a flag among them
    options = ("--state", "const", str(tmp_path / "state.npz"), "--platform", platform, "--name", "m")
    done("triton", *written(tmp_path, lstm()), "-o", str(tmp_path / "models"), *options)
    place = tmp_path / "models" / "m"
    if platform == "python":
        found = dict(np.load(place / "1" / "initial_state.npz"))
    else:
        config = (place / "config.pbtxt").read_text()
        assert re.findall(r'data_file: "(.*)"', config) == ["0.raw", "1.raw"]
        raw = [np.fromfile(place / "initial_state" / name, np.float32) for name in ("0.raw", "1.raw")]
        found = dict(zip(state, raw, strict=True))
    assert {name: array.ravel().tolist() for name, array in found.items()} == {
        "lstm_h_0": [2.0] * 4,
        "lstm_c_0": [3.0] * 4,
    }


def test_json(tmp_path: Path) -> None:
    told = json.loads(done("triton", STREAM, WEIGHTS, "-o", str(tmp_path / "m"), "--json").output)
    assert told.pop("format") == 1
    assert told.pop("seconds") > 0
    assert told.pop("manifest")["network"] == "digits_stream"
    assert told == {
        "folder": str(tmp_path / "m" / "digits_stream"),
        "platform": "onnxruntime",
        "max_batch_size": 8,
        "is_stateful": True,
        "inputs": {"data": [1, 1, 32, 16]},
        "outputs": {"prob": [1, 11]},
        "needs_plan": False,
    }


REFUSED = {
    "one stream": (
        lstm_of_one_stream(),
        (),
        "error: the net cannot take a batch of requests\n"
        '  because NET:8: layer "lstm" (LSTM), bottom "cont": shape is (1, N), expected (N, 1)\n'
        "  fix: let the batch vary: --set reshape.reshape_param.shape.dim=1,-1,3; or use --platform python, which"
        " computes sequences one by one\n",
    ),
    "steps and streams in Reshapes": (
        frames(3, 2, 6, (1, 1, 1)),
        (),
        "error: the net cannot take a batch of requests\n"
        '  because NET:4: layer "reshape-data" (Reshape), bottom "data": shape is (3*N, 3), which cannot'
        " become (3, 2, 3)\n"
        "  fix: let the batch vary: --set reshape-data.reshape_param.shape.dim=1,-1,3"
        " --set reshape-cm.reshape_param.shape.dim=1,-1 --shape data:1x3 --shape clip_markers:1x1x1x1\n",
    ),
    "several steps": (
        lstm(3),
        (),
        'error: onnxruntime cannot serve the net: "cont" has the shape (N, 3)\n'
        "  because Triton gives one number for each request, not one for each of its steps\n"
        "  fix: use --platform python, or write the net with one step a call (T = 1) and one cont\n",
    ),
    "two conts": (
        TWO_CONTS,
        (),
        "error: onnxruntime cannot serve the net: sequences start at several inputs: cont, cont2\n"
        "  because Triton marks the start in one input\n"
        "  fix: use --platform python, or write the net with one step a call (T = 1) and one cont\n",
    ),
    "no batch": (
        inputs_of({"x": (1, 2, 4, 4)}) + ROWS,
        ("--max-batch-size", "2"),
        "error: the net cannot take a batch of requests\n"
        """  because NET:3: layer "rows" (Reshape), bottom "x": shape is (N, 2, 4, 4), which cannot become (8, 4)\n"""
        "  fix: use --max-batch-size 1\n",
    ),
    "a size that depends on the data": (
        inputs_of({"x": (4, 3), "s": (4, 1)}) + FILTER,
        ("--platform", "python"),
        'error: python cannot serve the net: the size of "y" (f_count, 3) depends on the data\n'
        "  fix: use --platform onnxruntime, or cut the net with --output BLOB\n",
    ),
    "a backend for ONNX Runtime": (
        lstm(),
        ("--backend", "enterprise"),
        "Error: --backend enterprise does not go with --platform onnxruntime\n"
        "  because onnxruntime runs ONNX models, not plans\n"
        "  fix: leave out --backend; or use --platform python, which runs plans of both\n",
    ),
    "RTX for TensorRT": (
        lstm(),
        ("--backend", "rtx", "--platform", "tensorrt"),
        "Error: --backend rtx does not go with --platform tensorrt\n"
        "  because Triton's TensorRT does not load plans of TensorRT for RTX\n"
        "  fix: leave out --backend; or use --platform python, which runs plans of both\n",
    ),
    "a name with a slash": (
        lstm(),
        ("--name", "a/b"),
        "Error: --name is 'a/b', which cannot be the name of a model\n"
        "  because it is the name of a folder, and clients write it in URLs\n"
        "  fix: use letters, digits, _, - and .\n",
    ),
    "labels of another number": (
        lstm(),
        ("--labels", "FOLDER/three.txt"),
        'Error: --labels "FOLDER/three.txt" has 3 labels, and no outputs have as many classes\n'
        "  because the outputs are y (N, 4)\n"
        "  fix: give a file with one line for each class\n",
    ),
    "labels of two outputs": (
        lstm() + 'layer { name: "again" type: "TanH" bottom: "y" top: "z" }',
        ("--labels", "FOLDER/four.txt", "--output", "y", "--output", "z"),
        'Error: --labels "FOLDER/four.txt" has 4 labels, and 2 outputs have as many classes\n'
        "  because the outputs are y (N, 4), z (N, 4)\n"
        "  fix: leave one such output with --output BLOB\n",
    ),
    "states of other names": (
        lstm(),
        ("--state", "const", "FOLDER/other.npz"),
        "Error: --state has h, expected lstm_h_0, lstm_c_0\n"
        "  fix: give the state of one sequence: an array for each of these names\n",
    ),
    "states of another shape": (
        lstm(),
        ("--state", "const", "FOLDER/wide.npz"),
        'Error: --state: "lstm_h_0" has the shape (1, 2, 4), expected (1, 1, 4)\n'
        "  fix: give the state of one sequence\n",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    text, options, message = REFUSED[case]
    (tmp_path / "three.txt").write_text("a\nb\n\nc\n")
    (tmp_path / "four.txt").write_text("a\nb\nc\nd")
    np.savez(tmp_path / "other.npz", h=np.zeros(1))
    np.savez(tmp_path / "wide.npz", lstm_h_0=np.zeros((1, 2, 4)), lstm_c_0=np.zeros((1, 2, 4)))
    given = [option.replace("FOLDER", str(tmp_path)) for option in options]
    result = run("triton", *written(tmp_path, text), "-o", str(tmp_path / "models"), *given)
    found = result.stderr[result.stderr.lower().index("error:") :]
    found = found.replace(str(tmp_path / "net.prototxt"), "NET").replace(str(tmp_path), "FOLDER")
    assert found == message
    assert result.exit_code == (2 if found.startswith("Error") else 3)
    assert not (tmp_path / "models").exists()


PLACES = {
    "a file": (
        "file",
        '-o: "PLACE/file" is not a folder',
        "give a folder that exists, or a new one beside others",
    ),
    "no folder above": (
        "missing/models",
        '-o: the folder "PLACE/missing" does not exist',
        "give a folder that exists, or a new one beside others",
    ),
    "a model": (
        "models/m",
        '-o: "PLACE/models/m" is the folder of a model, because it holds config.pbtxt',
        "give the folder above it",
    ),
    "there is one": (
        "models",
        '-o: "PLACE/models/m" exists already',
        "remove it, or give the model another name with --name",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_no_file_of_the_user_is_overwritten(case: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "config.pbtxt").write_text("mine")
    place, problem, fix = PLACES[case]
    arguments = written(tmp_path, lstm())
    before = files(tmp_path)
    result = run("triton", *arguments, "-o", str(tmp_path / place), "--name", "m")
    found = result.stderr[result.stderr.index("Error:") :].replace(str(tmp_path), "PLACE")
    assert found == f"Error: {problem}\n  fix: {fix}\n"
    assert files(tmp_path) == before
    assert (tmp_path / "models" / "m" / "config.pbtxt").read_text() == "mine"


def test_a_second_model_beside_the_first(tmp_path: Path) -> None:
    for name in ("a", "b"):
        done("triton", *written(tmp_path, lstm()), "-o", str(tmp_path / "models"), "--name", name)
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["a", "b"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_leaves_nothing(exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fail)
    if exists:
        (tmp_path / "models").mkdir()
    arguments = written(tmp_path, lstm())
    before, place = sorted(tmp_path.rglob("*")), tmp_path / "models" / "m"
    result = run("triton", *arguments, "-o", str(place.parent), "--name", "m", "--platform", "python")
    assert result.exit_code == 3
    assert f"{place}: cannot be written: No space left on device" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("asked", "network", "file", "name"),
    [
        (None, "digits", "x.prototxt", "digits"),
        (None, "", "/nets/deploy v2.prototxt", "deploy_v2"),
        (None, "VGG/ILSVRC (16 layers)", "x", "VGG_ILSVRC_16_layers"),
        (None, "..", "x", "model"),
        ("a-b.c_1", "digits", "x", "a-b.c_1"),
    ],
)
def test_names(asked: str | None, network: str, file: str, name: str) -> None:
    assert repository.name_of_model(asked, network, file) == name


@pytest.mark.parametrize("place", ["models", "new"])
def test_two_programs_write_the_same_model(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one that is done wins, the other one says so, and nothing is mixed."""
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    arguments = ["triton", *written(tmp_path, lstm()), "-o", place, "--name", "net"]
    others = [["--platform", "python"]]

    def meanwhile(*given: object) -> object:
        if others:
            done(*arguments, *others.pop())
        return config_of(*given)  # type: ignore[arg-type]  # as they are

    monkeypatch.setattr(repository, "config_of", meanwhile)
    result = run(*arguments)
    folder = Path(place) if place == "new" else Path(place, "net")
    assert (result.exit_code, result.stderr) == (
        3,
        f'error: {folder}: "{folder}" has appeared while the model was made: another program writes there\n'
        "  fix: run the command again, with another --name if that is the same model\n",
    )
    config = Path(place, "net", "config.pbtxt").read_text()
    assert 'backend: "python"' in config
    assert Path(place, "net", "1", "model.py").exists()
    assert [path for path in Path().rglob("*") if path.name.startswith(".")] == []
