"""Nets that lose their data in the requested phase and stages: the reading that is used or offered instead."""

from __future__ import annotations

from typing import Any

import pytest

from prototrt.caffe_proto import Model, load
from prototrt.tests.small_nets import Write

NET = "layer { name: 'a' type: 'TanH' bottom: 'x' top: 'a' }"


def data(name: str, rules: str = "") -> str:
    return f"layer {{ name: '{name}' type: 'Data' top: 'x' top: 'y' {rules} }}"


def first_warning(model: Model) -> str:
    return next((warning for warning in model.warnings if "the net is read with" in warning), "")


TAKEN: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "data for training alone": (
        [data("in", "include { phase: TRAIN }"), NET],
        {},
        'net.prototxt: the net is read with phase="TRAIN": with phase TEST, level 0 and no stage,'
        " no layer makes some of the blobs",
    ),
    "data for testing alone": (
        [data("in", "exclude { phase: TRAIN }"), NET],
        {"phase": "TRAIN"},
        'net.prototxt: the net is read with phase="TEST": with phase TRAIN, level 0 and no stage,'
        " no layer makes some of the blobs",
    ),
    "one stage": (
        [data("in", "include { stage: 'val' }"), NET],
        {},
        'net.prototxt: the net is read with stages=["val"]: with phase TEST, level 0 and no stage,'
        " no layer makes some of the blobs",
    ),
    "a stage beside one that was asked for": (
        [data("in", "include { stage: 'b' }"), NET],
        {"stages": ["a"]},
        'net.prototxt: the net is read with stages=["a", "b"]: with phase TEST, level 0 and stages a,'
        " no layer makes some of the blobs",
    ),
    "of several stages the one to deploy": (
        [*(data(name, f"include {{ stage: '{name}' }}") for name in ("train", "val", "deploy")), NET],
        {},
        'net.prototxt: the net is read with stages=["deploy"]: with phase TEST, level 0 and no stage,'
        " no layer makes some of the blobs",
    ),
    "a level": (
        [data("in", "include { min_level: 2 }"), NET],
        {},
        "net.prototxt: the net is read with level=2: with phase TEST, level 0 and no stage,"
        " no layer makes some of the blobs",
    ),
    "phase and stage": (
        [data("in", "include { phase: TRAIN stage: 'a' }"), NET],
        {},
        'net.prototxt: the net is read with phase="TRAIN", stages=["a"]: with phase TEST, level 0 and no stage,'
        " no layer makes some of the blobs",
    ),
    "data of several stages, and nothing else": (
        [data("in", "include { stage: 'a' }"), data("other", "include { stage: 'b' }"), NET],
        {},
        'net.prototxt: the net is read with stages=["a"]: with phase TEST, level 0 and no stage,'
        " no layer makes some of the blobs",
    ),
    "data of two stages and of the other phase": (
        [data("in", "include { phase: TRAIN }"), data("other", "include { phase: TEST stage: 'b' }"), NET],
        {},
        'net.prototxt: the net is read with stages=["b"]: with phase TEST, level 0 and no stage,'
        " no layer makes some of the blobs",
    ),
    "everything is for training": (
        [data("in", "include { phase: TRAIN }"), NET.replace("top", "include { phase: TRAIN } top")],
        {},
        'net.prototxt: the net is read with phase="TRAIN": with phase TEST, level 0 and no stage,'
        " there are no layers",
    ),
    "nothing is missing": ([data("in"), NET, data("more", "include { phase: TRAIN }")], {}, ""),
    "only a metric misses its labels": (
        [
            "layer { name: 'in' type: 'Input' top: 'x' }",
            NET,
            "layer { name: 'l' type: 'Data' top: 'y' include { phase: TRAIN } }",
            "layer { name: 'acc' type: 'Accuracy' bottom: 'a' bottom: 'y' top: 'acc' }",
        ],
        {},
        "",
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_only_whole_reading_is_taken(case: str, write: Write) -> None:
    layers, asked, warning = TAKEN[case]
    model = load(write("\n".join(layers)), **asked)
    assert first_warning(model) == warning
    assert model.missing == ()
    assert [problem for layer in model.layers for problem in layer.problems] == []


OFFERED = {
    "two stages that compute differently": (
        [
            data("in", "include { stage: 'a' }"),
            data("other", "include { stage: 'b' }"),
            NET,
            "layer { name: 'b' type: 'TanH' bottom: 'a' top: 'b' include { stage: 'b' } }",
        ],
        'fix: choose stages=["a"] or stages=["b"]',
    ),
    "none": (
        [data("in", "include { stage: 'a' stage: 'b' }"), NET],
        "fix: choose a state that includes this layer; its include and exclude rules say which",
    ),
}


@pytest.mark.parametrize("case", OFFERED)
def test_else_they_are_offered(case: str, write: Write) -> None:
    layers, fix = OFFERED[case]
    (problem,) = [problem for layer in load(write("\n".join(layers))).layers for problem in layer.problems]
    assert str(problem) == (
        f'net.prototxt:{layers.index(NET) + 1}: layer "a" (TanH), bottom "x": no layer before this one makes it\n'
        '  because layer "in" (line 1), which makes it, is not in the net for phase TEST, level 0 and no stage\n'
        f"  {fix}"
    )


def test_a_blob_that_no_reading_makes_is_left_to_its_reader(write: Write) -> None:
    model = load(write(NET))
    assert (model.missing, first_warning(model)) == (("x",), "")


def test_a_stage_that_no_rule_names_is_told(write: Write) -> None:
    data = 'input: "x" input_dim: 1 input_dim: 2 input_dim: 1 input_dim: 1 '
    rules = 'include { stage: "deploy" }', 'include { not_stage: "deploy" not_stage: "val" }'
    layers = [f'layer {{ name: "a" type: "ReLU" bottom: "x" top: "y" {rule} }}' for rule in (*rules, "")]
    net = write(data + " ".join(layers[:2]))
    told = f'{net}: stages=["deplyo"] changes nothing: the rules of its layers name deploy, val'
    assert load(net, stages=["deplyo"]).warnings == (told,)
    assert load(net, stages=["deploy"]).warnings == ()
    assert load(net, stages=["val"]).warnings == ()
    assert load(write(data + layers[2]), stages=["deploy"]).warnings == ()
