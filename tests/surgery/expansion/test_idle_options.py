"""Options for what a net lacks are told in one line; those that it has a use for are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.surgery.expansion.idle_options import PURPOSES
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done
from prototrt.tests.small_nets import inputs_of, op, rewritten, stored

CHOICES: dict[str, Any] = {
    "scales": "scales.json",
    "calibration_cache": "net.cache",
    "quantize_all": True,
    "keep_float": "op",
    "preprocess": True,
    "cont": "drop",
    "state": "zero",
    "sequence": "unroll",
    "tile": "keep",
    "nms": "native",
    "fork": "textboxes",
    "settings": {"RPN_POST_NMS_TOP_N": 5},
    "rules": "rules.py",
}
WITHOUT_PURPOSE = {
    "scales has no effect: the precision is neither int8 nor fp8",
    "calibration_cache has no effect: the precision is neither int8 nor fp8",
    "quantize_all has no effect: the precision is neither int8 nor fp8",
    "keep_float has no effect: the precision is neither int8 nor fp8",
    "preprocess has no effect: no data layer states a mean or a scale",
    "cont has no effect: no layer reads cont",
    "state has no effect: no layer takes its state from outside",
    "sequence has no effect: the net has no recurrent layer",
    "tile has no effect: the net has no Tile",
    "nms has no effect: no layer suppresses boxes as the layer of ONNX and TensorRT does",
    "fork has no effect: no layer has a meaning of its own in this fork",
    "settings has no effect: no layer reads settings",
    "rules has no effect: the file has no rule for a layer of the net",
}


def is_told(graph: Graph, option: str) -> bool:
    return any(warning.startswith(f"{option} has no effect") for warning in graph.warnings)


def tanh_net(folder: Path) -> str:
    net = folder / "net.prototxt"
    net.write_text(inputs_of({"x": (2, 3)}) + op("TanH"))
    return str(net)


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rule = '@layer_rule("Mine")\ndef mine(build, layer, x):\n    return [x]\n'
    (tmp_path / "rules.py").write_text(f"from prototrt.surgery.rules import *\n\n{rule}")


def test_each_purpose_has_a_choice() -> None:
    assert [*CHOICES] == [name for purpose in PURPOSES for name in purpose.options]


@pytest.mark.usefixtures("rules")
def test_a_net_that_lacks_what_options_are_for() -> None:
    told = {
        warning
        for name, choice in CHOICES.items()
        for warning in rewritten(op("TanH"), {"x": (2, 3)}, **{name: choice}).warnings
    }
    assert told == WITHOUT_PURPOSE
    assert rewritten(op("TanH"), {"x": (2, 3)}, force=True, strict=True).warnings == ()
    assert rewritten(op("TanH"), {"x": (2, 3)}, nms="native", implied=("nms",)).warnings == ()


@pytest.mark.parametrize("name", ["cont", "state", "sequence"])
def test_a_recurrent_net_has_a_use_for(name: str) -> None:
    assert not is_told(prototrt.rewrite(prototrt.load(DEPLOY, WEIGHTS), **{name: CHOICES[name]}), name)


@pytest.mark.parametrize("name", ["cont", "state"])
def test_a_recurrent_layer_without_cont_begins_each_call_anew(name: str) -> None:
    blobs = stored("op", [np.zeros((4, 1)), np.zeros((4, 1)), np.zeros(4)])
    layer = op("Lstm", "lstm_param { num_output: 1 }")
    assert is_told(rewritten(layer, {"x": (2, 1, 1)}, blobs, **{name: CHOICES[name]}), name)


PROPOSAL = op(
    "Python",
    'python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" '
    "param_str: \"'feat_stride': 8, 'scales': [1], 'ratios': [1]\" }",
    ("a", "b", "c"),
)
ANCHORS = {"a": (1, 2, 3, 3), "b": (1, 4, 3, 3), "c": (1, 3)}


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("name", "layer", "shapes"),
    [
        ("tile", op("Tile", "tile_param { tiles: 2 }"), {"x": (2, 3)}),
        ("settings", PROPOSAL, ANCHORS),
        ("nms", PROPOSAL, ANCHORS),
        ("fork", op("PriorBox", "prior_box_param { min_size: 4 }", ("a", "b")), ANCHORS),
        ("rules", op("Mine"), {"x": (2, 3)}),
    ],
)
def test_a_net_that_has_a_use_for(name: str, layer: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert not is_told(rewritten(layer, shapes, **{name: CHOICES[name]}), name)


def test_a_fork_that_does_not_mean_another_layer() -> None:
    prior_box = op("PriorBox", "prior_box_param { min_size: 4 }", ("a", "b"))
    assert is_told(rewritten(prior_box, {"a": (1, 2, 3, 3), "b": (1, 3, 9, 9)}, fork="pvanet"), "fork")


def test_what_a_target_chooses_is_not_told(tmp_path: Path) -> None:
    asked = ("convert", tanh_net(tmp_path), "-o", str(tmp_path / "net.onnx"))
    assert done(*asked, "--target", "opencv").stderr == ""
    assert done(*asked, "--onnx-lstm").stderr == (
        "warning: --onnx-lstm has no effect: no recurrent layer of the net is a loop\n"
    )


def test_models_of_a_list_share_a_warning(tmp_path: Path) -> None:
    net = tanh_net(tmp_path)
    text = f'defaults: {{sequence: unroll, onnx-lstm: true, target: onnx, prototxt: "{net}"}}\nmodels:\n'
    models = tmp_path / "models.yaml"
    models.write_text(text + "".join(f"  - {{name: {name}, random-weights: 1}}\n" for name in "abc"))
    told = done("batch", str(models), "-o", str(tmp_path / "out"), "--jobs", "1").stderr.splitlines()
    assert [line for line in told if line.startswith("warning")] == [
        "warning: a, b, c: sequence has no effect: the net has no recurrent layer",
        "warning: a, b, c: onnx-lstm has no effect: no recurrent layer of the net is a loop",
    ]


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        (
            "upgrade --cont drop --force",
            "--cont, --force have no effect: the net is not written with --stage rewritten",
        ),
        (
            "upgrade --stage rewritten --force",
            "--stage, --force have no effect: the net has no recurrent layer",
        ),
        ("deploy --dynamic batch", "--dynamic has no effect: a prototxt states one size for each axis"),
        ("verify --inputs x.npy --seed 3", "--seed has no effect: the inputs are given"),
    ],
)
def test_options_of_single_commands(
    command: str, warning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((2, 3), np.float32))
    net = tanh_net(tmp_path)
    name, *options = command.split()
    assert f"warning: {warning}\n" in done(name, net, *options).stderr
