"""Every net that a fork of Caffe ran gives the fork's numbers, on every way we have of running it without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import AtMost
from prototrt.tests.golden_cases import Case, check, fork_cases, rewritten
from prototrt.tests.samples import families_of, one_of_each, runs_on_ways
from prototrt.tests.small_nets import is_sound
from prototrt.tests.surgery.layers.test_families import CASES as ALONE

CASES = fork_cases()
DETECTORS = [case for case in CASES if str(case) in ("net_refinedet", "net_ssd", "net_yolov2", "net_yolov3")]
DETECTION = 7
"""Numbers of a row: image, class, score, corners."""
ROUNDED = 0.01
"""How far scores and corners, which are relative to the image, may be off with float16."""


@pytest.mark.parametrize(
    ("case", "on"), runs_on_ways([(case,) for case in CASES], lambda case: case.layer_types)
)
def test_fork_golden(case: Case, on: Way) -> None:
    check(case, on)


OF_ANY_SIZE = ("det_clip", "net_rfcn", "proposal_frcnn_cpp", "proposal_happynear")
"""Those of whose families `test_open_detection.py` builds plans, for images of any size."""
BUILT_ALONE = families_of(case.type for case in ALONE)
"""Those of whose layers `test_families.py` builds an engine each."""
BUILT = [
    pytest.param(*each.values, marks=pytest.mark.exhaustive) if str(each.values[0]) in OF_ANY_SIZE else each
    for each in one_of_each(CASES, lambda case: case.families - BUILT_ALONE)
]


@pytest.mark.trt
@pytest.mark.parametrize("case", BUILT, ids=str)
def test_fork_golden_builds(case: Case) -> None:
    plan = prototrt.build(rewritten(case, case.arrays("inputs")[0]), backend="rtx")
    assert is_sound(plan.plan)


@pytest.mark.parametrize("case", DETECTORS, ids=str)
def test_fork_golden_in_half(case: Case) -> None:
    """The same objects are found where products compute in float16: each row of the fork has one like it."""
    inputs, expected = case.arrays("inputs")[0], case.arrays("outputs")[0]
    session = prototrt.Session(rewritten(case, inputs, precision="fp16"), cut=True)
    for name, found in session.run(inputs).items():
        if name in expected:
            rows, wanted = found.reshape(-1, DETECTION), expected[name].reshape(-1, DETECTION)
            assert len(rows) == len(wanted)
            for row in wanted:
                same_class = rows[(rows[:, :2] == row[:2]).all(1)]
                assert np.abs(same_class[:, 2:] - row[2:]).max(1).min() < ROUNDED, row


@pytest.mark.parametrize("case", one_of_each(CASES, lambda case: case.layer_types), ids=str)
def test_fork_golden_of_numbers_in_half(case: Case) -> None:
    """Where no decision hangs on the numbers, all of them are within the tolerance of the index for float16."""
    inputs, expected = case.arrays("inputs")[0], case.arrays("outputs")[0]
    graph = rewritten(case, inputs, precision="fp16")
    if any(isinstance(dim, AtMost) for value in graph.outputs for dim in value.shape):
        pytest.skip("its rows are objects that are found: one row too many is no small difference")
    session = prototrt.Session(graph)
    for name, found in session.run(inputs).items():
        relative, absolute = case.tolerance(name, "fp16")
        np.testing.assert_allclose(found, expected[name], relative, absolute, err_msg=name)
