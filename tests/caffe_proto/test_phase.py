"""Include and exclude rules, as Caffe's test_net.cpp has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prototrt.caffe_proto import ConversionError, load

ALWAYS = "layer { name: 'in' type: 'Input' top: 'x' }"

RULES: list[tuple[str, dict[str, Any], bool]] = [
    ("", {}, True),
    ("include { phase: TEST }", {}, True),
    ("include { phase: TRAIN }", {}, False),
    ("include { phase: TRAIN }", {"phase": "TRAIN"}, True),
    ("exclude { phase: TEST }", {}, False),
    ("exclude { phase: TRAIN }", {}, True),
    ("include { min_level: 2 }", {"level": 1}, False),
    ("include { min_level: 2 }", {"level": 2}, True),
    ("include { max_level: 2 }", {"level": 3}, False),
    ("include { max_level: -1 }", {"level": -1}, True),
    ("include { min_level: 2 max_level: 4 }", {"level": 5}, False),
    ("include { stage: 'a' stage: 'b' }", {"stages": ["a"]}, False),
    ("include { stage: 'a' stage: 'b' }", {"stages": ["a", "b", "c"]}, True),
    ("include { stage: 'a' } include { stage: 'b' }", {"stages": ["b"]}, True),
    ("include { not_stage: 'a' }", {"stages": ["a"]}, False),
    ("include { not_stage: 'a' }", {}, True),
    ("exclude { stage: 'a' } exclude { stage: 'b' }", {"stages": ["b"]}, False),
    ("exclude { phase: TEST stage: 'a' }", {}, True),
    ("include { }", {}, True),
    ("exclude { }", {}, False),
]


@pytest.mark.parametrize(("rule", "state", "is_included"), RULES)
def test_rules(rule: str, state: dict[str, Any], is_included: bool, write: Callable[..., str]) -> None:
    text = f"{ALWAYS} layer {{ name: 'r' type: 'ReLU' bottom: 'x' top: 'y' {rule} }}"
    names = [layer.name for layer in load(write(text), **state).layers]
    assert names == (["in", "r"] if is_included else ["in"])


def test_state_in_the_file(write: Callable[..., str]) -> None:
    """As in Caffe, the arguments replace phase and level, and add to the stages."""
    rule = "include { phase: TEST max_level: 0 stage: 'a' stage: 'b' }"
    text = f"state {{ phase: TRAIN level: 9 stage: 'a' }} {ALWAYS} layer {{ name: 'r' type: 'ReLU' {rule} }}"
    assert len(load(write(text), stages=["b"]).layers) == 2


def test_both_kinds_of_rules(write: Callable[..., str]) -> None:
    rules = "include { phase: TEST } exclude { stage: 'a' }"
    with pytest.raises(ConversionError) as caught:
        load(write(f"layer {{ name: 'r' type: 'ReLU' {rules} }}"))
    assert str(caught.value) == (
        'net.prototxt:1: layer "r" (ReLU): the layer has include rules and exclude rules, '
        "expected only one kind\n"
        "  fix: rewrite them all as include rules, or all as exclude rules"
    )


def test_unknown_phase(write: Callable[..., str]) -> None:
    with pytest.raises(ConversionError) as caught:
        load(write(ALWAYS), phase="DEPLOY")  # type: ignore[call-overload]  # the mistake
    assert str(caught.value) == "phase is 'DEPLOY', expected one of TEST, TRAIN\n  fix: use phase=\"TEST\""


TRAINED = """
layer { name: 'in' type: 'Input' top: 'x' }
layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'a' }
layer { name: 'never' type: 'Dropout' bottom: 'a' top: 'b' dropout_param { dropout_ratio: 0 } }
layer { name: 'bn' type: 'BatchNorm' bottom: 'b' top: 'c' }
layer { name: 'kept' type: 'BatchNorm' bottom: 'c' top: 'd' batch_norm_param { use_global_stats: true } }
layer { name: 'pool' type: 'Pooling' bottom: 'd' top: 'e' pooling_param { pool: STOCHASTIC kernel_size: 2 } }
layer { name: 'relu' type: 'ReLU' bottom: 'e' top: 'f' }
layer { name: 'own' type: 'Dropout' bottom: 'f' top: 'g' phase: TEST }
"""


def test_what_would_be_trained(write: Callable[..., str]) -> None:
    file = write(TRAINED)
    assert load(file).warnings == ()
    assert load(file, phase="TRAIN").warnings == (
        f'{file}: in phase TRAIN Caffe computes "drop", "bn" and "pool" differently: '
        "computed here as in phase TEST",
    )


def test_a_layer_with_a_phase_of_its_own(write: Callable[..., str]) -> None:
    file = write(TRAINED.replace("phase: TEST", "phase: TRAIN"))
    (warning,) = load(file).warnings
    assert warning == (
        f'{file}: in phase TRAIN Caffe computes "own" differently: computed here as in phase TEST'
    )
