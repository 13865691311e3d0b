"""What users say of forks: rules of their own, settings, which fork; docs/forks.md is tried as it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.tests.command_line import done
from prototrt.tests.golden_cases import case_called
from prototrt.tests.small_nets import Shapes, failure, numbers, op, refusal, rewritten

PAGE = (Path(__file__).parents[1] / "docs" / "forks.md").read_text()
SHAPES = {"score": (1, 4, 3, 4), "move": (1, 8, 3, 4), "info": (1, 4)}
PYTHON = 'python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "%s" }'
SETTINGS: Mapping[str, Any] = {
    "anchors": "-8,-8,23,23,-24,-24,39,39",
    "test_rpn_nms_thresh": 0.7,
    "test_rpn_min_size": 1,
    "test_rpn_pre_nms_top_n": 20,
    "test_rpn_post_nms_top_n": 5,
}


def example(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the files that docs/forks.md shows."""
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(example("protobuf"))
    Path("my_rules.py").write_text(example("python"))
    return tmp_path


@pytest.mark.trt
def test_the_example_of_the_page(folder: Path) -> None:
    commands = re.findall(r"^prototrt (convert .*--(rules|replace) .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for command, role in commands:
        done(*command.split())
        sources = json.loads(Path("net.plan.json").read_text())["sources"]
        assert sources[role]["file"] == "my_rules.py"


def test_any_command_takes_rules(folder: Path) -> None:
    assert "outputs  y 2x3" in done("inspect", "net.prototxt", "--rules", "my_rules.py").output


def test_the_rule_of_the_page_computes(folder: Path) -> None:
    x = numbers(2, 3)
    graph = prototrt.rewrite(prototrt.load("net.prototxt"), rules="my_rules.py")
    found = prototrt.Session(graph).run({"x": x})["y"]
    np.testing.assert_allclose(found, x / np.sqrt((x**2).sum(1, keepdims=True)), rtol=1e-5)


def test_a_python_layer_without_rule(folder: Path) -> None:
    Path("net.prototxt").write_text(example("protobuf").replace("UnitLayer", "OtherLayer"))
    model = prototrt.load("net.prototxt")
    assert failure(lambda: prototrt.rewrite(model, rules="my_rules.py", outputs=["y"])) == (
        'net.prototxt:2: layer "unit" (Python): there is no rule for this Python layer, "unit_layer.OtherLayer"\n'
        "  fix: write a rule for it, which `prototrt.new_rule(...)` begins"
    )


def test_changed_rules_replace_the_old_ones(folder: Path) -> None:
    model = prototrt.load("net.prototxt")
    prototrt.rewrite(model, rules="my_rules.py")
    Path("my_rules.py").write_text(example("python").replace("squares.sqrt()]", "squares.sqrt() * 2]"))
    graph = prototrt.rewrite(model, rules="my_rules.py")
    x = numbers(2, 3)
    found = prototrt.Session(graph).run({"x": x})["y"]
    np.testing.assert_allclose(found, 2 * x / np.sqrt((x**2).sum(1, keepdims=True)), rtol=1e-5)


RULES = {
    "wrong": (
        "1 / 0",
        "my_rules.py: is not a file of rules\n  because ZeroDivisionError: division by zero\n",
    ),
    "a script": ("import sys\nsys.exit()", "my_rules.py: is not a file of rules\n  because SystemExit: \n"),
    "taken": (
        "from prototrt.surgery.rules import layer_rule\n@layer_rule('ReLU')\ndef relu(build, layer, x): ...",
        "my_rules.py: is not a file of rules\n  because RuntimeError: ReLU has two layer rules: ",
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_files_of_rules_that_cannot_be_used(folder: Path, case: str) -> None:
    text, message = RULES[case]
    Path("my_rules.py").write_text(text)
    model = prototrt.load("net.prototxt")
    found = failure(lambda: prototrt.rewrite(model, rules="my_rules.py"), UnreadableFileError)
    assert found.startswith(message)
    assert found.endswith("\n  fix: write it as docs/forks.md shows")


def test_rules_that_are_not_there(folder: Path) -> None:
    Path("my_rules.py").unlink()
    model = prototrt.load("net.prototxt")
    found = failure(lambda: prototrt.rewrite(model, rules="my_rules.py"), UnreadableFileError)
    assert found == (
        f"my_rules.py: there is no such file\n  fix: check the path; the current folder is {Path.cwd()}"
    )


def test_param_str_is_read_as_yaml_and_python_read_it() -> None:
    for text in (
        "'feat_stride': 16",
        "feat_stride: 16\\n'scales': !!python/tuple [8, 16]",
        "{'feat_stride': 16, 'ratios': [0.5, 1]}",
        "{'feat_stride': 16, 'scales': [8, 16], 'true': true, 'seed': null, 'phase': TEST}",
    ):
        anchors = 6 if "scales" in text or "ratios" in text else 9
        shapes = {"score": (1, 2 * anchors, 3, 4), "move": (1, 4 * anchors, 3, 4), "info": (1, 3)}
        graph = rewritten(op("Python", PYTHON % text, shapes), shapes)
        assert graph.outputs[0].shape == (9 * 12 if anchors == 9 else 6 * 12, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "16",
            "param_str cannot be read: '16'\n  because it is not a list of KEY: VALUE\n"
            "  fix: write it as {'feat_stride': 16, 'scales': [8, 16, 32]}",
        ),
        (
            "'scales': [8]",
            "param_str states no feat_stride\n"
            "  fix: state what the net was trained with, as in {'feat_stride': 16, 'scales': [8, 16, 32]}",
        ),
        (
            "'feat_stride': 16\\n'scales': many",
            "param_str states scales as 'many', expected positive numbers\n"
            "  fix: state what the net was trained with, as in {'feat_stride': 16, 'scales': [8, 16, 32]}",
        ),
        (
            "'feat_stride': 16\\n'scales': range(2)",
            "param_str cannot be read: \"'feat_stride': 16\\n'scales': range(2)\"\n"
            "  because it is not a list of KEY: VALUE\n"
            "  fix: write it as {'feat_stride': 16, 'scales': [8, 16, 32]}",
        ),
        (
            "{'feat_stride': 16, 'ratios': [0.5, -1]}",
            "param_str states ratios as [0.5, -1], expected positive numbers\n"
            "  fix: state what the net was trained with, as in {'feat_stride': 16, 'scales': [8, 16, 32]}",
        ),
    ],
)
def test_param_str_that_cannot_be_used(text: str, message: str) -> None:
    told = refusal(op("Python", PYTHON % text, SHAPES), SHAPES)
    assert told == f'net.prototxt:4: layer "op" (Python): {message}'


ODD = st.one_of(
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.booleans(),
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.just(10**400),
)
VALUES = st.recursive(ODD, lambda inner: st.lists(inner, max_size=4) | st.tuples(inner), max_leaves=6)
STATED = st.dictionaries(
    st.sampled_from(["feat_stride", "ratios", "scales", "base_size", "height", "width"]) | ODD, VALUES
)
SIGNS = st.sampled_from("{}[]()':,-+~1aj\n \\")
LONG = [
    f"{{'feat_stride': {'+'.join(['1'] * 50_000)}}}",
    *(sign * count for sign in "[{(-~" for count in (190, 3_000, 9_000)),
    *(f"{{'feat_stride': {'(' * count}1{')' * count}}}" for count in (150, 4_000)),
    "{'a': " * 1_500,
    "{[]: 1}",
    "{{}}: 1",
    "'scales': [" + "1, " * 3_000 + "]",
    "feat_stride: " + "9" * 5_000,
    "\0",
]


@settings(max_examples=2 * settings().max_examples)
@given(STATED.map(repr) | st.text(SIGNS, max_size=30) | st.sampled_from(LONG))
@pytest.mark.parametrize("kind", ["rpn.proposal_layer.ProposalLayer", "cmap_layer.CmapLayer"])
def test_any_param_str_ends_with_a_graph_or_a_message(kind: str, text: str) -> None:
    module, _, name = kind.rpartition(".")
    written = "".join(f"\\{byte:03o}" for byte in text.encode())
    fields = f'python_param {{ module: "{module}" layer: "{name}" param_str: "{written}" }}'
    shapes = SHAPES if "rpn" in kind else {"x": (1, 3)}
    with suppress(prototrt.ConversionError):
        rewritten(op("Python", fields, shapes), shapes)


def test_fork_says_which_layer_is_meant() -> None:
    """Anchors of 4 x 16 pixels, or of 4; a region is a pixel wider than its anchor."""
    layer = op("Proposal", "proposal_param { ratio: 1 scale: 2 scale: 4 min_size: 1 }", SHAPES)
    told = rewritten(layer, SHAPES)
    assert [warning.partition("): ")[2] for warning in told.warnings] == [
        "read as the layer of pvanet: scale multiplies base_size;"
        ' use fork="happynear" if scale is the side of an anchor in pixels'
    ]
    feeds = {"score": np.ones(SHAPES["score"]), "move": np.zeros(SHAPES["move"]), "info": [[90, 99, 1, 1]]}
    widths = []
    for fork in ("pvanet", "happynear"):
        graph = rewritten(layer, SHAPES, fork=fork)
        assert not graph.warnings
        rois = prototrt.Session(graph, cut=True).run(feeds)["y"]
        widths.append((rois[:, 3] - rois[:, 1] + 1).max())
    assert widths == [65, 5]


def test_settings_of_a_file(folder: Path) -> None:
    Path("config.json").write_text(json.dumps(SETTINGS))
    shapes = {**SHAPES, "info": (1, 3)}
    layer = op("FrcnnProposal", "proposal_param { feat_stride: 16 }", shapes)
    graph = rewritten(layer, shapes, settings="config.json")
    assert graph.outputs[0].shape == (5, 5, 1, 1)
    assert [value.name for value in graph.outputs] == ["y", "y_count"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"test_rpn_min_size": "large"},
            "the setting test_rpn_min_size is 'large', expected a number\n"
            "  fix: state a number in the file of settings",
        ),
        (
            {"test_rpn_pre_nms_top_n": 1.5},
            "the setting test_rpn_pre_nms_top_n is 1.5, expected a whole number\n"
            "  fix: state a whole number in the file of settings",
        ),
        (
            {"anchors": [1, 2, 3]},
            "the setting anchors has 3 numbers, expected four for each anchor\n"
            "  fix: state the corners of each anchor around the first place, in pixels: x1, y1, x2, y2",
        ),
        (
            {"test_soft_nms": 1},
            "test_soft_nms is set\n  because scores that decay are not supported\n"
            "  fix: set it to 0: then boxes that overlap a better one are dropped",
        ),
    ],
)
def test_settings_that_cannot_be_used(changed: Mapping[str, Any], message: str) -> None:
    layer = op("FrcnnProposal", "proposal_param { feat_stride: 16 }", SHAPES)
    told = failure(lambda: rewritten(layer, SHAPES, settings={**SETTINGS, **changed}))
    assert told == f'net.prototxt:4: layer "op" (FrcnnProposal): {message}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "config.json: there is no such file\n  fix: check the path; the current folder is {folder}"),
        (
            "[1]",
            'config.json: holds no settings by name\n  fix: write an object, as in {"RPN_POST_NMS_TOP_N": 100}',
        ),
    ],
)
def test_files_of_settings_that_cannot_be_used(folder: Path, text: str | None, message: str) -> None:
    if text is not None:
        Path("config.json").write_text(text)
    layer = op("FrcnnProposal", "proposal_param { feat_stride: 16 }", SHAPES)
    told = failure(lambda: rewritten(layer, SHAPES, settings="config.json"), UnreadableFileError)
    assert told == message.replace("{folder}", str(Path.cwd()))


def test_run_cuts_rows_and_tells_how_many(folder: Path) -> None:
    inputs = "".join(
        f'layer {{ name: "in_{name}" type: "Input" top: "{name}" input_param {{ shape {{'
        + "".join(f" dim: {dim}" for dim in shape)
        + " } } }\n"
        for name, shape in SHAPES.items()
    )
    Path("net.prototxt").write_text(
        inputs + op("Python", PYTHON % "{'feat_stride': 16, 'scales': [2, 4], 'ratios': [1]}", SHAPES)
    )
    Path("config.json").write_text('{"RPN_POST_NMS_TOP_N": 3, "RPN_NMS_THRESH": 0.1, "RPN_MIN_SIZE": 4}')
    feeds = {"score": numbers(*SHAPES["score"]), "move": numbers(*SHAPES["move"]) / 9}
    np.savez("in.npz", **feeds, info=np.array([[40, 40, 1, 1]], np.float32))  # type: ignore[arg-type]
    said = ["--random-weights", "1", "--settings", "config.json", "--fork", "pvanet", "--nms", "native"]
    done("run", "net.prototxt", "--inputs", "in.npz", "-o", "out.npz", *said)
    found = np.load("out.npz")
    assert found["y"].shape == (int(found["y_count"][0]), 5)
    assert 1 <= len(found["y"]) <= 3


IMAGE = {"x": (1, 2, 3, 4)}
ROIS = {"x": (1, 2, 8, 8), "rois": (3, 5)}
ALIGN = "roi_pooling_param { pooled_h: 2 pooled_w: 2 }"
AMBIGUOUS: Mapping[str, tuple[str, Shapes, str, Mapping[str, set[str]]]] = {
    "BN": (
        op("BN", "", IMAGE),
        IMAGE,
        "read as the layer of pspnet: blobs are slope, bias, mean and variance;"
        ' use fork="happynear" if the fourth blob is 1 / sqrt(variance + eps)\n'
        "read as the layer of pspnet: blobs are slope, bias, mean and variance;"
        ' use fork="segnet" if blobs are scale and shift',
        {"pspnet": {"Affine"}, "happynear": {"Affine"}, "segnet": {"Affine", "Reduce", "Unary", "Binary"}},
    ),
    "Normalize": (
        op("Normalize", "", IMAGE),
        IMAGE,
        "read as the layer of happynear: there is no learned scale;"
        ' use fork="ssd" if the result is multiplied by a learned scale',
        {"happynear": {"Reduce", "Unary", "Binary"}, "ssd": {"Reduce", "Unary", "Binary"}},
    ),
    "ROIAlign": (
        op("ROIAlign", ALIGN, ROIS),
        ROIS,
        "read as the layer of cascade-rcnn: the corners of bins are read, pooled_h + 1 by pooled_w + 1;"
        ' use fork="makefile" if the middles of pooled_h by pooled_w bins are read',
        {},
    ),
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_forks_of_layers_that_say_nothing(kind: str) -> None:
    layer, shapes, warning, expected = AMBIGUOUS[kind]
    told = rewritten(layer, shapes, require_weights=False)
    assert "\n".join(text.partition("): ")[2] for text in told.warnings) == warning
    for fork, ops in expected.items():
        graph = rewritten(layer, shapes, fork=fork, require_weights=False)
        assert {type(node.op).__name__ for node in graph.nodes} == ops
        assert not graph.warnings


def test_forks_of_roi_align_have_different_tops() -> None:
    layer, shapes, *_ = AMBIGUOUS["ROIAlign"]
    tops = [rewritten(layer, shapes, fork=fork).outputs[0].shape for fork in ("cascade-rcnn", "makefile")]
    assert tops == [(3, 2, 3, 3), (3, 2, 2, 2)]


def test_the_fourth_blob_of_bn_in_happynears_fork_multiplies() -> None:
    case = case_called("bn_psp")
    model, (given,) = case.load(), case.arrays("inputs")
    (layer,) = (layer for layer in model.layers if layer.type == "BN")
    assert layer.blobs is not None
    slope, bias, mean, inverse = (blob.array.astype(np.float64).reshape(1, -1, 1, 1) for blob in layer.blobs)
    graph = prototrt.rewrite(model, fork="happynear")
    assert not graph.warnings
    (found,) = prototrt.Session(graph, on="reference").run(given).values()
    np.testing.assert_allclose(found, (given["data"] - mean) * inverse * slope + bias, rtol=1e-5, atol=1e-5)


def test_a_fork_in_whose_form_a_layer_is_read_is_not_told_to_be_idle() -> None:
    shapes: Shapes = {"x": (1, 2, 3, 3), "image": (1, 3, 9, 9)}
    layer = op("PriorBox", "prior_box_param { min_size: 2 }", shapes)
    assert not rewritten(layer, shapes, fork="ssd").warnings
