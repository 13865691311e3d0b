"""Suppression in primitives keeps what the forks' loops keep, however it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prototrt
from prototrt import Way
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.layers.detection import suppression
from prototrt.surgery.layers.detection.overlaps import Boxes, of_normalized_corners
from prototrt.surgery.layers.detection.suppression import Suppression, suppressed
from prototrt.tests.small_nets import WAYS, has_engine

LISTS, BOXES = 3, 24
LEAST_SCORE = 0.2
HELD_AT_ONCE: dict[str, int] = {"all overlaps at once": 1 << 24, "one box after the other": 0}
Keep: TypeAlias = Callable[[Array, Array], list[list[int]]]


def graph_of(rule: Suppression, before: int, most: int) -> Graph:
    """Scores and boxes of several lists; the indices of what is kept, and whether a place holds one."""
    build = Builder({"index", "is_kept"})
    scores, *parts = (
        Expression(build, build.input(name, (LISTS, BOXES))) for name in ("scores", "x1", "y1", "x2", "y2")
    )
    kept = suppressed(scores, scores > LEAST_SCORE, Boxes(*parts), rule, before=before, most=most)
    places = kept.is_kept.chosen(kept.index, -1)
    return build.graph("", [build.named(places.value, "index", "index", 0)])


def kept_on(way: Way, graph: Graph, scores: Array, boxes: Array) -> list[list[int]]:
    feeds = {name: boxes[..., place] for place, name in enumerate(("x1", "y1", "x2", "y2"))}
    found = prototrt.Session(graph, on=way).run({"scores": scores, **feeds})["index"]
    return [[int(index) for index in row if index >= 0] for row in found]


def kept_by_the_fork(
    rule: Suppression, before: int, most: int, scores: Array, boxes: Array
) -> Iterator[list[int]]:
    """``ApplyNMSFast`` of weiliu89/caffe, list by list."""
    for row, corners in zip(scores, boxes, strict=True):
        step = 1 if rule.first_of_equals else -1
        order = sorted(range(BOXES), key=lambda i: (-row[i], step * i))
        kept: list[int] = []
        threshold = np.float32(rule.threshold)
        for index in [i for i in order if row[i] > LEAST_SCORE][:before]:
            overlaps = [overlap(corners[index], corners[other]) for other in kept]
            if any(o > threshold or (rule.drops_equal and o == threshold) for o in overlaps):
                continue
            kept.append(index)
            if rule.eta < 1 and threshold > 0.5:
                threshold *= np.float32(rule.eta)
        yield kept[:most]


def overlap(a: Array, b: Array) -> np.float32:
    width, height = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if width <= 0 or height <= 0:
        return np.float32(0)
    common = width * height
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return np.float32(common / (areas[0] + areas[1] - common))


def drawn(seed: int, least: int = -1) -> tuple[Array, Array]:
    """Scores with many equal ones, and boxes on a grid, some of which are equal, empty or turned inside out."""
    random = np.random.default_rng(seed)
    scores = random.integers(0, 12, (LISTS, BOXES)).astype(np.float32) / 12
    scores[0] *= random.integers(0, 2)  # one list may have nothing to keep
    first = random.integers(0, 6, (LISTS, BOXES, 2))
    return scores, np.concatenate([first, first + random.integers(least, 6, first.shape)], -1).astype(
        np.float32
    )


RULES = st.builds(
    Suppression,
    threshold=st.sampled_from([0.0, 0.25, 0.5, 0.6, 0.75, 1.0]),
    overlap=st.just(of_normalized_corners),
    drops_equal=st.booleans(),
    eta=st.sampled_from([1.0, 0.9, 0.5]),
    first_of_equals=st.booleans(),
)


@pytest.mark.parametrize("held", HELD_AT_ONCE)
@given(
    rule=RULES,
    before=st.integers(1, BOXES + 2),
    most=st.integers(1, BOXES + 2),
    seed=st.integers(0, 1 << 30),
)
def test_keeps_what_the_fork_keeps(held: str, rule: Suppression, before: int, most: int, seed: int) -> None:
    scores, boxes = drawn(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suppression, "MOST_PAIRS", HELD_AT_ONCE[held])
        graph = graph_of(rule, before, most)
    found = [row[:most] for row in kept_on("reference", graph, scores, boxes)]
    assert found == list(kept_by_the_fork(rule, before, most, scores, boxes))


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("held", HELD_AT_ONCE)
@pytest.mark.parametrize("eta", [1.0, 0.9])
def test_all_ways_agree(monkeypatch: pytest.MonkeyPatch, eta: float, held: str, way: Way) -> None:
    monkeypatch.setattr(suppression, "MOST_PAIRS", HELD_AT_ONCE[held])
    rule = Suppression(0.6, of_normalized_corners, eta=eta)
    graph, (scores, boxes) = graph_of(rule, 20, 7), drawn(1)
    expected = list(kept_by_the_fork(rule, 20, 7, scores, boxes))
    assert [row[:7] for row in kept_on(way, graph, scores, boxes)] == expected


@pytest.mark.trt
@pytest.mark.parametrize("held", HELD_AT_ONCE)
@pytest.mark.parametrize("eta", [1.0, 0.9])
def test_builds(monkeypatch: pytest.MonkeyPatch, eta: float, held: str) -> None:
    monkeypatch.setattr(suppression, "MOST_PAIRS", HELD_AT_ONCE[held])
    assert has_engine(graph_of(Suppression(0.6, of_normalized_corners, eta=eta), 20, 7))


@pytest.mark.parametrize("way", WAYS)
@given(threshold=st.sampled_from([0.0, 0.3, 0.5, 1.0]), most=st.integers(1, BOXES), seed=st.integers(0, 99))
@settings(max_examples=10)
def test_native_layers_keep_the_same(way: Way, threshold: float, most: int, seed: int) -> None:
    rule = Suppression(threshold, of_normalized_corners, is_native=True)
    scores, boxes = drawn(seed, least=1)
    found = kept_on(way, graph_of(rule, 20, most), scores, boxes)
    assert found == list(kept_by_the_fork(rule, 20, most, scores, boxes))
