"""A stack of the plainest cell, by hand: the core resets, holds, turns and joins; the cell knows of nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Value
from prototrt.surgery.ops import ADD
from prototrt.surgery.recurrent.cells import Cell, Step
from prototrt.surgery.recurrent.running import StackInputs, run_stack
from prototrt.surgery.recurrent.stacks import Direction, InputWeights, Stack


class Sum(Cell):
    """``h' = h + x``, one number. With ``twice`` it also shows 2 h', which is no state."""

    def __init__(self, twice: bool = False) -> None:
        self.twice = twice

    @property
    def states(self) -> Mapping[str, int]:
        return {"h": 1}

    @property
    def stateless_outputs(self) -> Sequence[int]:
        return (1,) if self.twice else ()

    def __call__(self, body: Builder, x: Value, states: Sequence[Value]) -> Step:
        h = body.add(ADD, states[0], x)
        return Step([h], [h, body.add(ADD, h, h)] if self.twice else [h])


class Second:
    """The second output is the top."""

    def width(self, cell: Cell) -> int:
        return 1

    def __call__(self, build: Builder, outputs: Sequence[Value]) -> Value:
        return outputs[1]


def direction(build: Builder, *, reverse: bool = False, inputs: int = 1, **parts: Any) -> Direction:
    """x is taken as it is, or the sum of what the directions below give."""
    ones = build.constant(np.ones((1, inputs), np.float32))
    weights = InputWeights(ones, build.constant(np.zeros(1, np.float32)))
    return Direction(weights, **{"cell": Sum(), **parts}, reverse=reverse)


def run(
    build: Builder,
    stack: Stack,
    given: Sequence[float],
    cont: Sequence[float] | None = None,
    length: int | None = None,
) -> list[list[float]]:
    """The top, and the last states, of one stream with x = 1, 2, 3, 4."""
    x = build.input("x", (4, 1, 1))
    feeds: list[Array] = [np.array([1, 2, 3, 4], np.float32).reshape(4, 1, 1)]
    rest: dict[str, Any] = {}
    if cont is not None:
        rest["cont"] = build.input("cont", (4, 1))
        feeds.append(np.array(cont, np.float32).reshape(4, 1))
    if length is not None:
        rest["lengths"] = build.input("lengths", (1,), DType.INT32)
        feeds.append(np.array([length], np.int32))
    initial = build.constant(np.array(given, np.float32).reshape(-1, 1, 1))
    ran = run_stack(build, stack, StackInputs(x, **rest), [[initial]])
    results = build.graph("", [ran.top, *ran.states[0]]).evaluate(*feeds)
    return [result.reshape(-1).tolist() for result in results]


@pytest.mark.parametrize(
    ("reverse", "cont", "length", "top", "last"),
    [
        (False, None, None, [11, 13, 16, 20], 20),
        (False, [1, 1, 0, 1], None, [11, 13, 3, 7], 7),
        (False, [0.5, 1, 1, 2], None, [6, 8, 11, 26], 26),
        (False, [1, 1, 0, 1], 2, [11, 13, 0, 0], 13),
        (False, None, 0, [0, 0, 0, 0], 10),
        (True, None, None, [20, 19, 17, 14], 20),
        (True, [0, 1, 0, 1], None, [3, 2, 17, 14], 3),
        (True, [0, 1, 0.5, 1], None, [11.5, 10.5, 17, 14], 11.5),
        (True, [0, 1, 0, 1], 2, [13, 12, 0, 0], 13),
    ],
)
def test_one_direction(
    reverse: bool, cont: list[float] | None, length: int | None, top: list[float], last: float
) -> None:
    """The state begins with 10."""
    build = Builder()
    stack = Stack([[direction(build, reverse=reverse)]])
    assert run(build, stack, [10], cont, length) == [top, [last]]


@pytest.mark.parametrize(("adds_up", "top"), [(False, [1, 10, 3, 9, 6, 7, 10, 4]), (True, [11, 12, 13, 14])])
def test_both_directions(adds_up: bool, top: list[float]) -> None:
    build = Builder()
    stack = Stack([[direction(build), direction(build, reverse=True)]], adds_up=adds_up)
    assert run(build, stack, [0, 0]) == [top, [10, 10]]


def test_a_layer_reads_the_one_below() -> None:
    """Sums of sums; each layer has a state of its own, and both begin anew."""
    build = Builder()
    stack = Stack([[direction(build)], [direction(build)]])
    assert run(build, stack, [10, 100], cont=[1, 1, 0, 1]) == [[111, 124, 3, 10], [7, 10]]


def test_the_input_is_reset_where_the_stack_says_so() -> None:
    build = Builder()
    stack = Stack([[direction(build)]], resets_input=True)
    assert run(build, stack, [10], cont=[1, 0.5, 0, 1]) == [[11, 6.5, 0, 4], [4]]


@pytest.mark.parametrize(("length", "top"), [(2, [22, 26, 26, 26]), (0, [0, 0, 0, 0])])
def test_an_output_that_is_no_state_is_held(length: int, top: list[float]) -> None:
    build = Builder()
    twice = direction(build, cell=Sum(twice=True), readout=Second())
    stack = Stack([[twice]], holds_past_end=True)
    assert run(build, stack, [10], length=length)[0] == top
