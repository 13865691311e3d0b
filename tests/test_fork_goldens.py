"""Every net that a fork of Caffe ran gives the fork's numbers, on every way we have of running it without a GPU."""

from __future__ import annotations

import pytest

import prototrt
from prototrt.tests.golden_cases import Case, check, fork_cases, rewritten
from prototrt.tests.small_nets import WAYS, is_sound

CASES = fork_cases()


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_fork_golden(case: Case, on: str) -> None:
    skip_without_rules(case)
    check(case, on)


@pytest.mark.trt
@pytest.mark.parametrize("case", CASES, ids=str)
def test_fork_golden_builds(case: Case) -> None:
    skip_without_rules(case)
    plan = prototrt.build(rewritten(case, case.arrays("inputs")[0]), backend="rtx")
    assert is_sound(plan.plan)


def skip_without_rules(case: Case) -> None:
    if case.types_without_rule:
        pytest.skip(f"no rule yet for {', '.join(case.types_without_rule)}")
