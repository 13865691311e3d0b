"""A golden is made of a net and of what something else computes, and the tests of its family take it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import prototrt
from prototrt.tests.golden_cases import Case, check
from prototrt.tests.oracle import caffe_client
from prototrt.tests.tools import make_golden

NET = """
layer { name: 'data' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
layer { name: 'scale' type: 'Scale' bottom: 'x' top: 'y' }
"""
FORMULA = """
def outputs(inputs, weights):
    (scale,) = weights["scale"]
    return {"y": inputs["x"] * scale}
"""
CAFFE = """
import numpy as np

TEST = 1


class Net:
    '''A Caffe whose only net multiplies by what the caffemodel holds.'''

    def __init__(self, prototxt, phase):
        self.blobs = {name: type("Blob", (), {"data": np.zeros((2, 3), np.float32)})() for name in "xy"}
        self.outputs = ["y"]

    def copy_from(self, caffemodel):
        self.held = open(caffemodel, "rb").read()

    def save(self, caffemodel):
        open(caffemodel, "wb").write(self.held)

    def forward(self):
        self.blobs["y"].data[...] = 3 * self.blobs["x"].data
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, in a folder with a net and its weights; goldens go there, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(make_golden, "GOLDENS", tmp_path / "goldens")
    Path("scaled.prototxt").write_text(NET)
    Path("formula.py").write_text(FORMULA)
    weights: dict[str, Any] = {"scale/0": np.array([1, -2, 0.5], np.float32)}
    np.savez("weights.npz", **weights)

    def run(reference: str, *options: str, weights: str | None = "weights.npz") -> Result:
        fixed = ["scaled.prototxt", "--exercises", "a scale of each column", "--reference", reference]
        stored = ["--weights", weights] if weights else []
        return CliRunner().invoke(make_golden.main, [*fixed, *stored, *options])

    return run


def case_in(family: str) -> Case:
    (facts,) = json.loads(Path("goldens", family, "index.json").read_text())
    return Case(Path("goldens", family, facts["case"]), facts)


def test_of_a_formula(made: Callable[..., Result]) -> None:
    result = made("formula.py", "--source", "caffe src/caffe/layers/scale_layer.cpp")
    assert result.exit_code == 0, result.output
    case = case_in("forks")
    assert (case.facts["layer_types"], case.facts["weights_file"]) == (["Scale"], "model.npz")
    assert case.facts["relative_change_for_other_inputs"] > 0.1
    assert (case.folder / "formula.py").read_text() == FORMULA
    assert (case.folder / "origin.txt").read_text() == (
        "Computed by formula.py, beside this file.\nSource: caffe src/caffe/layers/scale_layer.cpp\n"
    )
    check(case, "reference")


def test_weights_are_drawn(made: Callable[..., Result]) -> None:
    """The formula and the golden get the same numbers, and no ones or zeros."""
    result = made("formula.py", "--name", "drawn", weights=None)  # graphs of goldens are cached by name
    assert result.exit_code == 0, result.output
    case = case_in("forks")
    (scale,) = (
        prototrt.load(case.folder / "model.prototxt", case.folder / "model.caffemodel").layers[1].blobs or ()
    )
    assert scale is not None
    assert len({*scale.array.tolist()}) == 3
    check(case, "reference")


def test_a_wrong_formula_makes_a_golden_that_fails(made: Callable[..., Result]) -> None:
    Path("formula.py").write_text(FORMULA.replace("* scale", "+ scale"))
    assert made("formula.py").exit_code == 0
    with pytest.raises(AssertionError):
        check(case_in("forks"), "reference")


def test_several_calls_and_a_second_golden(made: Callable[..., Result]) -> None:
    for number in range(2):
        np.savez(f"{number}.npz", x=np.full((2, 3), number + 1, np.float32))
    assert made("formula.py", "--inputs", "0.npz", "--inputs", "1.npz", "--name", "twice").exit_code == 0
    case = case_in("forks")
    assert [call["y"][0].tolist() for call in case.arrays("outputs")] == [[1, -2, 0.5], [2, -4, 1]]
    check(case, "reference")
    assert made("formula.py", "--name", "once").exit_code == 0
    index = json.loads(Path("goldens/forks/index.json").read_text())
    assert [facts["case"] for facts in index] == ["once", "twice"]


def test_of_an_onnx_model(made: Callable[..., Result]) -> None:
    onnx: Any = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, (2, 3)) for name in "xy")
    scale = onnx.numpy_helper.from_array(np.array([1, -2, 0.5], np.float32), "scale")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Mul", ["x", "scale"], ["y"])], "", [x], [y], [scale]
    )
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), "scaled.onnx")
    assert made("scaled.onnx").exit_code == 0
    case = case_in("forks")
    assert "from scaled.onnx, SHA-256 " in case.facts["reference"]
    check(case, "reference")


def test_of_caffe(made: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of that name stands in for Caffe, which is not where most tests run."""
    Path("caffe.py").write_text(CAFFE)
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setattr(caffe_client, "COMMAND", "python3")
    assert made("caffe").exit_code == 0
    case = case_in("caffe")
    assert (case.folder / "model.caffemodel").read_bytes() == Path("weights.npz").read_bytes()
    (inputs,), (outputs,) = case.arrays("inputs"), case.arrays("outputs")
    np.testing.assert_array_equal(outputs["y"], 3 * inputs["x"])


def test_of_opencv(made: Callable[..., Result]) -> None:
    """OpenCV 5 reads no Caffe nets, and the tool says which version does."""
    cv2: Any = pytest.importorskip("cv2", reason="needs OpenCV")
    text = NET.replace("'Scale'", "'TanH'").replace("dim: 2 dim: 3", "dim: 1 dim: 2 dim: 3 dim: 4")
    Path("scaled.prototxt").write_text(text)
    runner = ["scaled.prototxt", "--exercises", "TanH", "--reference", "opencv"]
    result = CliRunner().invoke(make_golden.main, runner)
    if hasattr(cv2.dnn, "readNetFromCaffe"):
        assert result.exit_code == 0
        check(case_in("forks"), "reference")
    else:
        assert result.output.splitlines()[-1] == (
            f"Error: OpenCV {cv2.__version__} reads no Caffe nets: install opencv-python-headless<5"
        )


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("torch", '--reference is "torch", expected caffe, opencv, or a .py or .onnx file that is there'),
        (
            "missing.py",
            '--reference is "missing.py", expected caffe, opencv, or a .py or .onnx file that is there',
        ),
        ("caffe", "set CAFFE_PYTHON to the command of a Python 3 that has Caffe"),
    ],
)
def test_refused(
    made: Callable[..., Result], reference: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caffe_client, "COMMAND", "")
    result = made(reference)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == f"Error: {message}"
    assert not Path("goldens").exists()


@pytest.mark.parametrize(
    ("layer", "reference", "message"),
    [
        ("Scale", "scaled.onnx", "the net has parameters: give the --weights that the ONNX model holds"),
        (
            "Unheard",
            "formula.py",
            'cannot draw weights for the net: scaled.prototxt:3: layer "scale" (Unheard): ',
        ),
    ],
)
def test_weights_that_cannot_be_drawn(
    made: Callable[..., Result], layer: str, reference: str, message: str
) -> None:
    Path("scaled.prototxt").write_text(NET.replace("Scale", layer))
    result = made(reference, weights=None)
    assert result.exit_code == 2
    assert f"Error: {message}" in result.output
    assert not Path("goldens").exists()


def test_what_is_there_is_not_written_over(made: Callable[..., Result]) -> None:
    assert made("formula.py").exit_code == 0
    result = made("formula.py")
    assert result.exit_code == 2
    assert result.output.splitlines()[-1].endswith("is there already: give another --name")
