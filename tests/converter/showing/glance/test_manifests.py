"""What the manifest beside a file says of it, and the command that follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done
from prototrt.tests.converter.showing.glance.files import MANIFEST, plan


def test_a_plan_without_manifest_says_so(tmp_path: Path) -> None:
    """Its content is TensorRT's own."""
    file = tmp_path / "net.plan"
    plan(file)
    told = done("inspect", str(file))
    assert told.stdout.splitlines() == [
        f"{file}: a TensorRT engine, 4.1 kB",
        f"next  prototrt run {file} --inputs in.npz -o out.npz --trust",
    ]
    assert told.stderr == (
        f"warning: {file}: there is no manifest beside it, net.plan.json: nothing says what the engine holds\n"
    )


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00"])
def test_a_manifest_that_is_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "net.plan"
    plan(file)
    Path(f"{file}.json").write_text(content)
    assert done("inspect", str(file)).stderr == f"warning: {file}.json: is not a manifest that can be read\n"


def onnx_with(folder: Path, **options: Any) -> Path:
    prototrt.convert(DEPLOY, WEIGHTS, folder / "net.onnx", **options)
    return folder / "net.onnx"


NEXT: dict[str, tuple[dict[str, Any], str]] = {
    "float32": ({}, "--noTF32"),
    "float16": ({"precision": "fp16"}, "--stronglyTyped --noTF32"),
    "sizes that vary": (
        {"min_shapes": {"data": (1, 1, 32, 16), "cont": (1, 1)}, "outputs": ["prob"]},
        "--noTF32 --minShapes=data:1x1x32x16,cont:1x1 --optShapes=data:40x1x32x16,cont:40x1"
        " --maxShapes=data:40x1x32x16,cont:40x1",
    ),
    "a target's own": (
        {"target": "datacenter", "precision": "fp16", "tf32": True, "builder_optimization_level": 5},
        "--stronglyTyped --builderOptimizationLevel=5",
    ),
}


@pytest.mark.parametrize("case", NEXT)
def test_the_manifest_says_how_trtexec_builds(case: str, tmp_path: Path) -> None:
    options, words = NEXT[case]
    file = onnx_with(tmp_path, **options)
    command = f"trtexec --onnx={file} --saveEngine=net.plan {words}"
    assert json.loads(done("inspect", str(file), "--json").stdout)["next"] == command


@pytest.mark.parametrize("words", [["rm", "-r", "/"], ["trtexec", "; rm"], "rm", [], [1]])
def test_a_manifest_proposes_trtexec_alone(words: object, tmp_path: Path) -> None:
    file = onnx_with(tmp_path)
    manifest = json.loads(Path(f"{file}.json").read_text())
    Path(f"{file}.json").write_text(json.dumps({**manifest, "trtexec": words}))
    assert json.loads(done("inspect", str(file), "--json").stdout)["next"].startswith(
        f"trtexec --onnx={file} --save"
    )


def test_a_manifest_of_another_plan_is_told(tmp_path: Path) -> None:
    file = tmp_path / "net.plan"
    plan(file)
    Path(f"{file}.json").write_text(json.dumps({**MANIFEST, "plan": {"bytes": 12}}))
    assert done("inspect", str(file)).stderr == (
        f"warning: {file}.json: is about a file of 12 bytes, this one has 4096\n"
    )


def test_a_manifest_whose_pairs_are_no_inputs_and_outputs_is_told(tmp_path: Path) -> None:
    file = tmp_path / "net.plan"
    plan(file)
    wrong = {**MANIFEST, "recurrences": [{"input": "h_0", "output": "c_T"}]}
    Path(f"{file}.json").write_text(json.dumps(wrong))
    shown = done("inspect", str(file)).stdout
    assert (
        "\ninputs  cannot be read: what the manifest says of inputs, outputs and state is incomplete or wrong\n"
        in shown
    )
    assert "\noutputs" not in shown
