"""What is written: the text, which ruff accepts, and the files beside it. These tests need no PyTorch."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import prototrt
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.cli import main
from prototrt.converter.backends.torch.expressions import NOT_WRITTEN, expression
from prototrt.converter.backends.torch.functions import FUNCTIONS
from prototrt.surgery import ops
from prototrt.surgery.ir import Op
from prototrt.tests.converter.backends.torch.files import FOLDER, OUTPUTS, written
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.golden_cases import caffe_cases, case_called, fork_cases, rewritten
from prototrt.tests.samples import first_of_each


@pytest.mark.parametrize("name", OUTPUTS)
def test_text(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = written(name, tmp_path).read_text().replace(prototrt.__version__, "VERSION")
    golden = FOLDER / f"{name}.py.txt"
    if request.config.getoption("--update-goldens"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_notes_name_no_folder(tmp_path: Path) -> None:
    case, file = case_called("net_lrcn"), tmp_path / "net.py"
    graph = prototrt.rewrite(case.load(), dynamic=["batch"])
    assert str(case.folder) in graph.warnings[0]
    prototrt.export_torch(graph, file)
    assert "\nNote: model.prototxt: with dynamic=['batch'], N is 1 to 16, usually 2\n" in file.read_text()
    assert str(case.folder) not in file.read_text()


def test_documentation_shows_what_is_written() -> None:
    texts = [(FOLDER / f"{name}.py.txt").read_text() for name in OUTPUTS]
    page = (ROOT / "docs/pytorch.md").read_text()
    shown = re.findall(r"^```python\n(class .*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(shown) == 1
    assert any(shown[0] in text for text in texts)


@pytest.mark.slow
def test_ruff_accepts_every_file(tmp_path: Path) -> None:
    """By the rules of this project, which are more than ruff's own."""
    for case in first_of_each([*caffe_cases(), *fork_cases()], lambda case: case.families):
        prototrt.export_torch(rewritten(case, case.arrays("inputs")[0]), tmp_path / f"{case}.py")
    command = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
    result = subprocess.run([*command, "--no-cache"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_every_primitive_has_a_row() -> None:
    statements = {ops.Scan, ops.While}
    primitives = {each for each in vars(ops).values() if isinstance(each, type) and issubclass(each, Op)}
    assert {*expression.rules} == primitives - statements - {*NOT_WRITTEN}


def test_each_function_of_a_file_is_itself_python() -> None:
    for name, source in FUNCTIONS.items():
        (definition,) = ast.parse(source).body
        assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
        assert definition.name == name


def test_command_writes_three_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = case_called("net_lenet").folder
    monkeypatch.chdir(tmp_path)
    arguments = [str(folder / "model.prototxt"), str(folder / "model.caffemodel"), "-o", "net.py"]
    result = CliRunner().invoke(main, ["convert", *arguments])
    assert result.exit_code == 0, result.output
    assert "a PyTorch module with 9 tensors" in result.output
    assert {file.name for file in tmp_path.iterdir()} == {"net.py", "net.py.json", "net.safetensors"}
    assert json.loads(Path("net.py.json").read_text())["torch"] == {
        "weights": "net.safetensors",
        "tensors": 9,
    }
    again = CliRunner().invoke(main, ["convert", *arguments])
    assert again.exit_code == 0, again.output


def test_weights_of_others_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "net.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    graph = prototrt.rewrite(case_called("net_lenet").load())
    with pytest.raises(prototrt.OptionsError, match=r"net\.safetensors\", which prototrt did not write"):
        prototrt.export_torch(graph, tmp_path / "net.py")
    assert not (tmp_path / "net.py").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--tile", "plugin"], "--tile plugin is for engines, but FILE ends in .py"),
        (["--opset", "13"], "--opset is for ONNX models, but FILE does not end in .onnx"),
        (["--tf32"], "--tf32 is for engines, but FILE ends in .py"),
        (["--precision", "fp16"], "the graph is in fp16, and a PyTorch module is written in float32"),
    ],
    ids=lambda part: part[0] if isinstance(part, list) else "",
)
def test_options_of_other_files_are_refused(option: list[str], message: str, tmp_path: Path) -> None:
    folder = case_called("net_lenet").folder
    files = [str(folder / "model.prototxt"), str(folder / "model.caffemodel"), "-o", str(tmp_path / "net.py")]
    result = CliRunner().invoke(main, ["convert", *files, *option])
    assert result.exit_code == 2 or result.exit_code == 1
    assert message in result.output
    assert not [*tmp_path.iterdir()]


def test_weights_are_safetensors(tmp_path: Path) -> None:
    load_file = pytest.importorskip("safetensors.numpy", reason="needs safetensors").load_file
    case = case_called("net_lenet")
    arrays = load_file(written(str(case), tmp_path).with_suffix(".safetensors"))
    (layer,) = [layer for layer in case.load().layers if layer.name == "conv1"]
    assert layer.blobs is not None
    np.testing.assert_array_equal(arrays["conv1.weight"], layer.blobs[0].array)


@pytest.mark.parametrize(
    ("name", "fix"), [("a-b.py", "a_b.py"), ("class.py", "class_net.py"), ("7.py", "layer_7.py")]
)
def test_names_that_python_cannot_import(name: str, fix: str, tmp_path: Path) -> None:
    graph = prototrt.rewrite(case_called("net_lenet").load())
    with pytest.raises(prototrt.OptionsError) as caught:
        prototrt.export_torch(graph, tmp_path / name)
    assert str(caught.value) == (
        f"{tmp_path / name}: Python cannot import a module of this name\n  fix: call the file {fix}"
    )
    assert [*tmp_path.iterdir()] == []


def test_without_pytorch_nothing_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    folder = case_called("net_lenet").folder
    files = [str(folder / "model.prototxt"), str(folder / "model.caffemodel")]
    result = CliRunner().invoke(main, ["convert", *files, "-o", str(tmp_path / "net.py"), "--verify"])
    assert result.exit_code != 0
    problem, fix = result.output.split("error: ")[1].split("\n")[:2]
    assert problem == "a PyTorch module needs the package torch"
    assert fix == f"  fix: {pip_install('torch')}"
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("preprocess", "sentence"),
    [(False, "as for Caffe. Caffe's nets"), (True, "the module subtracts the mean")],
)
def test_the_docstring_says_who_preprocesses(preprocess: bool, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } }'
        " transform_param { mean_value: 3 scale: 0.5 } }"
        'layer { name: "tanh" type: "TanH" bottom: "x" top: "y" }'
    )
    graph = prototrt.rewrite(prototrt.load(path), preprocess=preprocess)
    prototrt.export_torch(graph, tmp_path / "net.py")
    assert f"Preprocessing: {sentence}" in (tmp_path / "net.py").read_text()
