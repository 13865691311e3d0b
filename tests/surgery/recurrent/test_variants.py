"""Every variant of a cell gives the numbers that PyTorch, or its equations in float64, gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Form, Way
from prototrt.tests.recurrent_cases import RecurrentCase, recurrent_cases
from prototrt.tests.samples import kinds_in_sequence, one_of_each, runs_on_ways

CASES = recurrent_cases()


def sequences(case: RecurrentCase) -> list[str]:
    return ["loop", "unroll", "step"] if case.steps == 1 else ["loop", "unroll"]


@pytest.mark.parametrize(
    ("case", "sequence", "on"),
    runs_on_ways(
        [(case, sequence) for case in CASES for sequence in sequences(case)],
        lambda case, sequence: kinds_in_sequence([case.cell], case, sequence),
    ),
)
def test_golden(case: RecurrentCase, sequence: Form, on: Way, tmp_path: Path) -> None:
    net = case.net()
    graph = prototrt.rewrite(net.load(tmp_path), outputs=list(net.expected), sequence=sequence)
    results = prototrt.Session(graph, on=on).run(net.feeds)
    for name, wanted in net.expected.items():
        assert results[name].shape == wanted.shape, name
        np.testing.assert_allclose(results[name], wanted, *case.tolerance, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_states_as_bindings(case: RecurrentCase, tmp_path: Path) -> None:
    """Without expose_hidden the same states are recurrent inputs and outputs, called after the layer."""
    net = case.net()
    session = prototrt.Session(prototrt.rewrite(net.load(tmp_path, exposed=False)))
    given = {f"rnn_{name}" if name.endswith("_0") else name: array for name, array in net.feeds.items()}
    results = session.run(given)
    last = "y" if net.further else "rnn"
    np.testing.assert_allclose(results[last], net.expected[last], *case.tolerance)
    for state in net.states:
        np.testing.assert_allclose(
            session.state[f"rnn_{state}_0"], net.expected[f"{state}_T"], *case.tolerance
        )


@pytest.mark.trt
@pytest.mark.parametrize("case", one_of_each(CASES, lambda case: {case.cell}), ids=str)
def test_golden_builds(case: RecurrentCase, tmp_path: Path) -> None:
    plan = prototrt.build(prototrt.rewrite(case.net().load(tmp_path)), backend="rtx")
    assert plan.manifest["recurrences"][0] == {"input": "h_0", "output": "h_T", "exposed": True}
