"""Numbers that are known from elsewhere, on engines: Caffe's goldens, and the sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from click.testing import CliRunner

from prototrt import Form, Precision
from prototrt.cli import main
from prototrt.converter.verification.comparison import Difference, difference_of
from prototrt.converter.verification.tolerances import TOLERANCES
from prototrt.surgery.ir import Array
from prototrt.surgery.pipeline import PRECISIONS
from prototrt.tests.digit_strips import DIGITS, STRIPS, WINDOWS, digits, probabilities, steps
from prototrt.tests.golden_cases import Case, SessionOf, recurrent_runs, runs
from prototrt.tests.gpu.rows import Check


def goldens(session_of: SessionOf) -> Iterator[Check]:
    """Every recurrent net that Caffe ran, in every sequence that it can be written in."""
    for precision in PRECISIONS:
        for case, sequence in recurrent_runs():
            attempt = golden(case, session_of, sequence, precision)
            yield Check(f"golden {case}, {sequence}, {precision}", attempt)


def golden(case: Case, session_of: SessionOf, sequence: Form, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        worst = [
            near(results[name], wanted, precision, name)
            for results, expected in runs(case, session_of, sequence, precision=precision)
            for name, wanted in expected.items()
        ]
        return told(*worst)

    return attempt


def sample(session_of: SessionOf) -> Iterator[Check]:
    """The strips of digits: at once, and window by window with the state fed back."""
    for precision in PRECISIONS:
        for sequence in ("loop", "unroll"):
            yield Check(f"sample, {sequence}, {precision}", whole(session_of, sequence, precision))
        yield Check(f"sample, step by step, {precision}", stream(session_of, precision))


def whole(session_of: SessionOf, sequence: Form, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        known = np.load(DIGITS / "expected.npz")
        cont = np.ones((WINDOWS, 1), np.float32)
        cont[0] = 0
        session = session_of(digits("deploy.prototxt", sequence, precision))
        found = [session.run({"data": data, "cont": cont})["prob"] for data in known["data"]]
        return told(near(np.array(found), known["prob"], precision, "prob"))

    return attempt


def stream(session_of: SessionOf, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        session = session_of(digits("deploy_stream.prototxt", "step", precision))
        worst = []
        for strip in range(STRIPS):
            found = [session.run(feed)["prob"][0] for feed in steps(WINDOWS, strip)]
            worst.append(near(np.array(found), np.array(probabilities(WINDOWS, strip)), precision, "prob"))
        return told(*worst)

    return attempt


def verification() -> Iterator[Check]:
    """The command, as a user calls it."""
    for precision in PRECISIONS:
        yield Check(f"verify --on engine --precision {precision}", verified(precision))


def verified(precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        net = [str(DIGITS / "deploy.prototxt"), str(DIGITS / "digits.caffemodel")]
        options = ["--on", "engine", "--precision", precision, "--calls", "3"]
        result = CliRunner().invoke(main, ["verify", *net, *options])
        assert result.exit_code == 0, result.output
        return str(result.stdout.splitlines()[-1])

    return attempt


def near(found: Array, wanted: Array, precision: Precision, name: str) -> Difference:
    """How far off it is. Raises ``AssertionError`` where that is more than the precision explains."""
    difference = difference_of(found, wanted, TOLERANCES[precision])
    assert difference.is_small, (
        f"{name} is off by {difference.max_abs:.2g}, expected at most {difference.allowed:.2g}"
    )
    return difference


def told(*differences: Difference) -> str:
    worst = max(differences, key=lambda found: found.max_abs)
    return f"largest difference {worst.max_abs:.1e}"
