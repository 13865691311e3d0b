"""Primitives which no Caffe layer uses by itself, or only some of whose attributes."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Graph, Op
from prototrt.surgery.ops import (
    CEIL,
    COS,
    ERF,
    FLOOR,
    SIGN,
    SIN,
    Clip,
    HardSigmoid,
    Power,
    Reduce,
    ReduceKind,
    Softsign,
)
from prototrt.tests.small_nets import WAYS, float32, has_engine

CASES = [
    (Clip(-np.inf, 0.5), [-np.inf, -2, 0.5, 3], [-np.inf, -2, 0.5, 0.5]),
    (Clip(0.5, np.inf), [-2, 0.5, 3, np.inf], [0.5, 0.5, 3, np.inf]),
    (Clip(-np.inf, np.inf), [-2, np.inf], [-2, np.inf]),
    (HardSigmoid(), [-9, -2.5, -1, 0, 2, 9], [0, 0, 0.3, 0.5, 0.9, 1]),
    (HardSigmoid(alpha=-1, beta=0.25), [-2, 0, 0.125, 2], [1, 0.25, 0.125, 0]),
    (Softsign(), [-3, -1, 0, 4], [-0.75, -0.5, 0, 0.8]),
    (Power(0), [-2, 0, 5], [1, 1, 1]),
    (Power(-3), [-2, 4, np.inf], [-0.125, 1 / 64, 0]),
    (Power(np.inf), [0.5, 2], [0, np.inf]),
    (Reduce(ReduceKind.MEAN, (0,)), [1, 2, 6], [3]),
    (Reduce(ReduceKind.SUM, (0,), keep=False), [1, 2, 6], 9),
    (Reduce(ReduceKind.MAX, (0,)), [1, 6, 2], [6]),
    (Reduce(ReduceKind.MIN, (0,), keep=False), [3, -1, 2], -1),
    (CEIL, [-1.5, 0.25, 2], [-1, 1, 2]),
    (COS, [0, np.pi / 3, np.pi], [1, 0.5, -1]),
    (ERF, [-0.5, 0, 1], [-0.52049988, 0, 0.84270079]),
    (FLOOR, [-1.5, 0.25, 2], [-2, 0, 2]),
    (SIGN, [-1.5, 0, 2], [-1, 0, 1]),
    (SIN, [0, np.pi / 6, -np.pi / 2], [0, 0.5, -1]),
]


def graph_of_op(op: Op, size: int) -> Graph:
    build = Builder({"x", "y"})
    x = build.input("x", (size,))
    return build.graph("op", [build.named(build.add(op, x), "y", "y", 0)])


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("op", "x", "expected"), CASES, ids=lambda part: str(part) if isinstance(part, Op) else ""
)
def test_numbers(op: Op, x: list[float], expected: object, on: Way) -> None:
    found = prototrt.Session(graph_of_op(op, len(x)), on=on).run({"x": x})["y"]
    assert found.shape == float32(expected).shape
    np.testing.assert_allclose(found, float32(expected), rtol=1e-6)


@pytest.mark.trt
@pytest.mark.parametrize(
    ("op", "x", "expected"), CASES, ids=lambda part: str(part) if isinstance(part, Op) else ""
)
def test_builds(op: Op, x: list[float], expected: object) -> None:
    assert has_engine(graph_of_op(op, len(x)))
