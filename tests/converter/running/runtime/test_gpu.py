"""The goldens, and what sessions do beside computing, on a real engine, where there is a GPU to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from prototrt import Form
from prototrt.converter.checking.machines.doctor import diagnose
from prototrt.converter.checking.selftest.engines import engine_session
from prototrt.converter.checking.selftest.nets import SessionOf
from prototrt.converter.checking.selftest.rows import Check, row_of
from prototrt.tests.converter.checking.selftest import engine_checks, libraries, sessions
from prototrt.tests.golden_cases import Case, caffe_cases, check, check_half, recurrent_runs


def why_not() -> str | None:
    """Why no engine can run here; None if one can."""
    running = [ability for ability in diagnose().abilities if ability.what.startswith("run")]
    if any(ability.verdict != "no" for ability in running):
        return None
    return f"needs a GPU: {running[0].reason}"


REASON = why_not()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=REASON or "")]
AROUND = (
    sessions.sessions,
    libraries.libraries,
    libraries.pycuda,
    engine_checks.profiles,
    engine_checks.replays,
    engine_checks.plugins,
    engine_checks.verification,
)
CASES = [case for case in caffe_cases() if str(case) != "filter"]


@pytest.mark.parametrize("checks", AROUND)
def test_what_an_engine_does_beside_its_numbers(checks: Callable[[SessionOf], Iterator[Check]]) -> None:
    rows = [row_of(check) for check in checks(engine_session)]
    assert {row.verdict for row in rows} <= {"ok", "not tried"}, rows


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden(case: Case) -> None:
    check(case, "engine")


@pytest.mark.parametrize(
    ("case", "sequence"),
    recurrent_runs(),
    ids=str,
)
def test_recurrent_golden_in_every_sequence(case: Case, sequence: Form) -> None:
    check(case, "engine", sequence)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_in_float16(case: Case) -> None:
    check_half(case, "engine")
