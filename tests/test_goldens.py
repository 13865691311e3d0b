"""Every net that real Caffe ran gives Caffe's numbers, on every way we have of running it."""

from __future__ import annotations

import pytest

import prototrt
from prototrt import Form, Way
from prototrt.tests.golden_cases import Case, caffe_cases, check, recurrent_runs, rewritten
from prototrt.tests.samples import kinds_in_sequence, one_of_each, runs_on_ways
from prototrt.tests.small_nets import is_sound
from prototrt.tests.surgery.layers.test_families import CASES as ALONE

CASES = caffe_cases()
DATA_DEPENDENT = {"filter"}
FIXED = [case for case in CASES if str(case) not in DATA_DEPENDENT]
BUILT_ALONE = {case.type for case in ALONE}
"""Types of which `test_families.py` builds an engine each."""
RECURRENT = [case for case in CASES if case.is_recurrent]


@pytest.mark.parametrize(("case", "on"), runs_on_ways([(case,) for case in FIXED], lambda case: case.words))
def test_golden(case: Case, on: Way) -> None:
    check(case, on)


@pytest.mark.parametrize("on", ["reference", "onnx"])
@pytest.mark.parametrize("case", [case for case in CASES if case not in FIXED], ids=str)
def test_golden_of_sizes_that_depend_on_data(case: Case, on: Way) -> None:
    check(case, on)


@pytest.mark.parametrize(
    ("case", "sequence", "on"),
    runs_on_ways(
        recurrent_runs(), lambda case, sequence: kinds_in_sequence(case.layer_types, case, sequence)
    ),
)
def test_recurrent_golden_in_every_sequence(case: Case, sequence: Form, on: Way) -> None:
    check(case, on, sequence)


@pytest.mark.trt
@pytest.mark.parametrize("case", one_of_each(FIXED, lambda case: case.layer_types - BUILT_ALONE), ids=str)
def test_golden_builds(case: Case) -> None:
    plan = prototrt.build(rewritten(case, case.arrays("inputs")[0]), backend="rtx")
    assert is_sound(plan.plan)
    bindings = {binding["name"] for binding in plan.manifest["inputs"] + plan.manifest["outputs"]}
    assert set(case.arrays("outputs")[0]) <= bindings
    assert all(name.encode() in bytes(plan.plan) for name in bindings), (
        "the engine knows its bindings by name"
    )


@pytest.mark.trt
@pytest.mark.parametrize("case", [case for case in RECURRENT if "step" in case.sequences], ids=str)
def test_one_step_builds_as_a_loop(case: Case) -> None:
    graph = rewritten(case, case.arrays("inputs")[0], "loop")
    assert prototrt.build(graph, backend="rtx").manifest["recurrences"]
