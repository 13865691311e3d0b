"""LSTMUnit against its equations, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prototrt import Way
from prototrt.tests.small_nets import WAYS, builds, numbers, refusal, run

UNIT = 'layer { name: "unit" type: "LSTMUnit" bottom: "c_prev" bottom: "gates" bottom: "cont" top: "c" top: "h" }'
SHAPES = {"c_prev": (1, 3, 4), "gates": (1, 3, 16), "cont": (1, 3)}


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("cont", [[0, 1, 0.5], [1, 1, 1]])
def test_equations(on: Way, cont: list[float]) -> None:
    """cont is a factor of the forget gate, also where it is neither 0 nor 1."""
    c_prev, gates = numbers(1, 3, 4), 2 * numbers(1, 3, 16, seed=1)
    results = run(UNIT, {"c_prev": c_prev, "gates": gates, "cont": np.array([cont], np.float32)}, on=on)
    for n in range(3):
        for d in range(4):
            i, f, o = (sigmoid(gates[0, n, 4 * gate + d]) for gate in range(3))
            c = cont[n] * f * c_prev[0, n, d] + i * math.tanh(gates[0, n, 12 + d])
            assert results["c"][0, n, d] == pytest.approx(c, abs=1e-6)
            assert results["h"][0, n, d] == pytest.approx(o * math.tanh(c), abs=1e-6)


@pytest.mark.trt
def test_builds() -> None:
    assert builds(UNIT, SHAPES)


WHERE = 'net.prototxt:4: layer "unit" (LSTMUnit)'
REFUSED = {
    ("c_prev", (2, 3, 4)): f'{WHERE}, bottom "c_prev": shape is (2, 3, 4), expected (1, N, H)\n'
    "  fix: slice the sequence into single steps, and give this layer the state of one of them",
    ("c_prev", (3, 4)): f'{WHERE}, bottom "c_prev": shape is (3, 4), expected (1, N, H)\n'
    "  fix: slice the sequence into single steps, and give this layer the state of one of them",
    ("gates", (1, 3, 12)): (
        f'{WHERE}, bottom "gates": shape is (1, 3, 12), expected (1, 3, 16)\n'
        '  because bottom "c_prev" has the shape (1, 3, 4), (1, N, H)\n'
        "  fix: change the num_output of the layer that makes this bottom, or add a Reshape after that layer"
    ),
    ("cont", (1, 3, 1)): (
        f'{WHERE}, bottom "cont": shape is (1, 3, 1), expected (1, 3)\n'
        '  because bottom "c_prev" has the shape (1, 3, 4), (1, N, H)\n'
        "  fix: change the num_output of the layer that makes this bottom, or add a Reshape after that layer"
    ),
}


@pytest.mark.parametrize(("blob", "shape"), REFUSED)
def test_refused(blob: str, shape: tuple[int, ...]) -> None:
    assert refusal(UNIT, {**SHAPES, blob: shape}) == REFUSED[blob, shape]
