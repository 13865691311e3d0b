"""Scans drawn at random: whatever the passes make of them, they give the same numbers.

Of each recipe for a body there are often several Scans, with constants of their own, over the same and over
different sequences, forwards and backwards, one after the other or beside it. Sizes are often 1, where what
broadcasts and what does not look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pytest

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Graph, fixed
from prototrt.surgery.ops import (
    ADD,
    MULTIPLY,
    SUBTRACT,
    Concat,
    Gather,
    Reverse,
    Slice,
    Softmax,
    TanH,
    Transpose,
)
from prototrt.surgery.pipeline import CANONICAL, FORMS, PRECISIONS, TILES, lowered
from prototrt.surgery.recurrent.cells import Step, scan
from prototrt.surgery.runner import run

Tolerance = tuple[float, float]
"""Relative and absolute."""
FULL: Tolerance = (1e-4, 1e-5)
HALF: Tolerance = (0.05, 0.05)  # a few products of numbers around 1, each rounded to 11 bits

T = TypeVar("T")

Change = Callable[[Builder, Value, Sequence[Value], Value, Value], Value]
"""What a step does to h (N, H), given the elements x (N, H), d (N, 1), e (1, H), weights (H, H), a bias (1, H)."""

CHANGES: tuple[Change, ...] = (
    lambda body, h, step, w, b: body.product(h, w),
    lambda body, h, step, w, b: body.product(body.add(MULTIPLY, h, step[1]), w),
    lambda body, h, step, w, b: body.product(body.add(MULTIPLY, step[1], h), w),
    lambda body, h, step, w, b: body.product(body.add(MULTIPLY, h, step[2]), w),
    lambda body, h, step, w, b: body.add(MULTIPLY, h, step[1]),
    lambda body, h, step, w, b: body.add(ADD, h, step[0]),
    lambda body, h, step, w, b: body.add(ADD, h, step[2]),
    lambda body, h, step, w, b: body.add(ADD, h, b),
    lambda body, h, step, w, b: body.add(ADD, h, body.product(step[0], w)),
    lambda body, h, step, w, b: body.add(Softmax(1), h),
    lambda body, h, step, w, b: body.add(Transpose((1, 0)), body.add(Transpose((1, 0)), h)),
    lambda body, h, step, w, b: body.add(
        Slice(1, 1, fixed(h.shape[1], "H")), body.add(Concat(1), h, step[0])
    ),
)


class Drawn:
    """Some Scans over x (T, N, H), d (T, N, 1), e (T, 1, H), from states (N, H) and (2, N, H)."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.build = build = Builder()
        steps, self.streams, self.hidden = (self.one_of(1, 2, 3) for _ in "TNH")
        self.sequences = [build.input("x", (steps, self.streams, self.hidden))]
        self.factors = [build.input("d", (steps, self.streams, 1)), build.input("e", (steps, 1, self.hidden))]
        self.states = [build.input("h", self.shape), build.input("both", (2, *self.shape))]
        self.shared = self.constant(self.hidden, self.hidden)
        self.outputs: list[Value] = []
        recipe = self.recipe()
        for _ in range(self.one_of(1, 2, 3, 4, 5)):
            self.add_scan(recipe)
            recipe = self.one_of(recipe, recipe, self.recipe())

    @property
    def shape(self) -> tuple[int, int]:
        return self.streams, self.hidden

    def one_of(self, *choices: T) -> T:
        return choices[self.random.integers(len(choices))]

    def recipe(self) -> list[int]:
        return [int(number) for number in self.random.integers(len(CHANGES), size=self.one_of(1, 2, 3, 4))]

    def constant(self, *shape: int) -> Value:
        return self.build.constant(self.random.standard_normal(shape).astype(np.float32) / 2)

    def initial(self) -> Value:
        own, both = self.states
        place = self.one_of(0, 1)
        cut = self.build.reshape(self.build.add(Slice(0, place, 1), both), self.shape)
        picked = self.build.add(Gather(), both, self.build.constant(np.array(place, np.int32)))
        return self.one_of(own, cut, picked, self.build.constant(np.zeros(self.shape, np.float32)))

    def sequence(self) -> Value:
        x, other = self.one_of(*self.sequences), self.one_of(*self.sequences)
        steps, streams = (self.one_of(1, fixed(dim, "T or N")) for dim in x.shape[:2])
        summed = self.build.add(ADD, x, self.constant(steps, streams, self.hidden))
        both = self.build.add(ADD, self.build.add(Reverse(0), x), other)
        return self.one_of(x, summed, both, self.build.add(Reverse(0), x))

    def add_scan(self, recipe: Sequence[int]) -> None:
        weights = [self.one_of(self.shared, self.constant(self.hidden, self.hidden)) for _ in recipe]
        biases = [self.constant(1, self.hidden) for _ in recipe]

        def cell(body: Builder, step: Sequence[Value], states: Sequence[Value]) -> Step:
            h = states[0]
            for number, w, b in zip(recipe, weights, biases, strict=True):
                h = CHANGES[number](body, h, step, w, b)
            h = body.add(TanH(), h)
            return Step([h], [body.add(SUBTRACT, h, states[0]), h])

        factors = self.factors
        if self.one_of(True, False):
            factors = [self.build.add(Reverse(0), value) for value in factors]
        read = [self.sequence(), *factors]
        end = scan(self.build, cell, read, [self.initial()], reverse=self.one_of(True, False))
        self.sequences.append(end.outputs[1])
        self.outputs += [value for value in (*end.states, *end.outputs) if self.one_of(True, False)]

    def graph(self) -> Graph:
        return self.build.graph("drawn", self.outputs or self.sequences[-1:])


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.exhaustive if seed >= 20 else ()) for seed in range(40)]
)
def test_passes_change_no_number(seed: int) -> None:
    graph = Drawn(seed).graph()
    rewritten = run(graph, [CANONICAL, TILES["broadcast"]])
    for precision, tolerance in ((PRECISIONS["fp32"], FULL), (PRECISIONS["fp16"], HALF)):
        computed = run(rewritten, [precision])
        forms = [run(computed, [each]) for each in FORMS.values()]
        for after in (computed, *forms, *(lowered(form, "tensorrt") for form in forms)):
            assert_equal(after, graph, tolerance)


def assert_equal(after: Graph, before: Graph, tolerance: Tolerance) -> None:
    """The same outputs for the same inputs, of which some may be needed no longer."""
    random = np.random.default_rng(1)
    feeds = {
        value.name: random.standard_normal([fixed(dim, "a size") for dim in value.shape]).astype(np.float32)
        for value in before.inputs
    }
    found, expected = (g.evaluate(*(feeds[value.name] for value in g.inputs)) for g in (after, before))
    assert [value.name for value in after.outputs] == [value.name for value in before.outputs]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, *tolerance)
