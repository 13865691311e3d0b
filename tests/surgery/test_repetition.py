"""Loops that end when the data say so, or after a number of rounds: on every way, their engines, their pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Graph
from prototrt.surgery.ops import ADD, GREATER, Reduce, ReduceKind, While
from prototrt.surgery.passes.compute_in_half import compute_in_half
from prototrt.surgery.views.dot import dot_from_graph
from prototrt.tests.small_nets import WAYS, float32, is_sound

LIMIT = 10


def adding() -> Graph:
    """Adds ``step`` to ``start`` until an element is at least 10, but at least once."""
    build = Builder({"start", "step", "sum"})
    start, step = build.input("start", (2, 3)), build.input("step", (1, 3))
    inner = build.body()
    state, summand = inner.body_input("state", (2, 3)), inner.body_input("summand", (1, 3))
    total = inner.add(ADD, state, summand)
    largest = inner.add(Reduce(ReduceKind.MAX, (0, 1), keep=False), total)
    again = inner.add(GREATER, inner.scalar(LIMIT, 0), largest)
    loop = build.add(While(inner.graph("body", [total, again])), start, step)
    return build.graph("net", [build.named(loop, "sum", "sum", 0)])


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("start", "rounds"), [(0, 4), (7, 1), (LIMIT, 1)])
def test_rounds(start: float, rounds: int, on: Way) -> None:
    feeds = {"start": np.full((2, 3), start, np.float32), "step": float32([[1, 2, 3]])}
    found = prototrt.Session(adding(), on=on).run(feeds)["sum"]
    np.testing.assert_array_equal(found, start + rounds * np.tile(float32([1, 2, 3]), (2, 1)))


def doubling(rounds: int) -> Graph:
    """Doubles ``x`` so often."""
    build = Builder({"x", "y"})
    x, inner = build.input("x", (2, 3)), build.body()
    state = inner.body_input("state", (2, 3))
    loop = While(inner.graph("body", [inner.add(ADD, state, state)]), rounds)
    return build.graph("net", [build.named(build.add(loop, x), "y", "y", 0)])


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("rounds", [1, 5])
def test_fixed_number_of_rounds(rounds: int, on: Way) -> None:
    x = float32([[1, 2, 3], [4, 5, 6]])
    found = prototrt.Session(doubling(rounds), on=on).run({"x": x})["y"]
    np.testing.assert_array_equal(found, x * 2**rounds)


def test_picture_of_fixed_rounds() -> None:
    assert "While, 5 rounds" in dot_from_graph(doubling(5))


@pytest.mark.trt
@pytest.mark.parametrize(("graph", "capturable"), [(adding(), b"0"), (doubling(20), b"1")])
def test_builds(graph: Graph, capturable: bytes) -> None:
    """A plan says whether a CUDA graph can hold it."""
    plan = prototrt.build(graph, backend="rtx").plan
    assert is_sound(plan)
    assert b"stream_capturable=" + capturable in bytes(plan)


def test_picture(check_text: object) -> None:
    golden = Path(__file__).parents[1] / "goldens" / "dot" / "while.dot"
    assert callable(check_text)
    check_text(golden, dot_from_graph(adding()))


def test_stays_in_float32() -> None:
    graph = adding()
    assert compute_in_half(graph) is graph
