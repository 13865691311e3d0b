"""Suppression in primitives keeps what the forks' loops keep, however it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prototrt
from prototrt import Way
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.detection import suppression
from prototrt.surgery.detection.blocks import block_size
from prototrt.surgery.detection.overlaps import (
    NATIVE,
    Boxes,
    Overlap,
    Suppression,
    of_centres,
    of_normalized_corners,
    of_pixel_corners,
)
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.ir import Array, Graph, element_count, walk
from prototrt.surgery.ops import NonMaxSuppression, While
from prototrt.tests.small_nets import WAYS, is_sound

LISTS, BOXES = 3, 24
LEAST_SCORE = 0.2
WAYS_TO_DECIDE: dict[str, dict[str, int]] = {
    "groups": {"suppression.MOST_IN_GROUPS": 512},
    "one block": {"suppression.MOST_IN_GROUPS": 0},
    "small blocks": {
        "suppression.MOST_IN_GROUPS": 0,
        "blocks.LARGEST_BLOCK": 7,
        "blocks.SMALLEST_BLOCK": 1,
        "blocks.REPEATS": 2,
    },
}
"""How boxes are decided, and the limits that make it so."""
Keep: TypeAlias = Callable[[Array, Array], list[list[int]]]


def patch_limits(patch: pytest.MonkeyPatch, way: str) -> None:
    for limit, number in WAYS_TO_DECIDE[way].items():
        patch.setattr(f"prototrt.surgery.detection.{limit}", number)


def graph_of(rule: Suppression, before: int, most: int, lists: int = LISTS, boxes: int = BOXES) -> Graph:
    """Scores and boxes of several lists; the indices of what is kept, -1 where a place is free."""
    build = Builder({"index"})
    scores, *parts = (build.input(name, (lists, boxes)) for name in ("scores", "x1", "y1", "x2", "y2"))
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


@pytest.mark.parametrize("way", WAYS_TO_DECIDE)
@given(
    rule=RULES,
    before=st.integers(1, BOXES + 2),
    most=st.integers(1, BOXES + 2),
    seed=st.integers(0, 1 << 30),
)
def test_keeps_what_the_fork_keeps(way: str, rule: Suppression, before: int, most: int, seed: int) -> None:
    scores, boxes = drawn(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch_limits(patch, way)
        graph = graph_of(rule, before, most)
    found = [row[:most] for row in kept_on("reference", graph, scores, boxes)]
    assert found == list(kept_by_the_fork(rule, before, most, scores, boxes))


@pytest.mark.parametrize("on", WAYS[1:])
@pytest.mark.parametrize("way", ["groups", "small blocks"])
@pytest.mark.parametrize("eta", [1.0, 0.9])
def test_all_backends_agree(monkeypatch: pytest.MonkeyPatch, eta: float, way: str, on: Way) -> None:
    patch_limits(monkeypatch, way)
    rule = Suppression(0.6, of_normalized_corners, eta=eta)
    graph, (scores, boxes) = graph_of(rule, 20, 7), drawn(1)
    expected = list(kept_by_the_fork(rule, 20, 7, scores, boxes))
    assert [row[:7] for row in kept_on(on, graph, scores, boxes)] == expected


@pytest.mark.trt
@pytest.mark.parametrize(("way", "capturable"), [("groups", b"1"), ("one block", b"0")])
@pytest.mark.parametrize("eta", [pytest.param(1.0, marks=pytest.mark.exhaustive), 0.9])
def test_builds(monkeypatch: pytest.MonkeyPatch, eta: float, way: str, capturable: bytes) -> None:
    """A plan of TensorRT for RTX says whether a CUDA graph can hold it."""
    patch_limits(monkeypatch, way)
    graph = graph_of(Suppression(0.6, of_normalized_corners, eta=eta), 20, 7)
    plan = prototrt.build(graph, backend="rtx").plan
    assert is_sound(plan)
    assert b"stream_capturable=" + capturable in bytes(plan)


@pytest.mark.parametrize("way", WAYS_TO_DECIDE)
@pytest.mark.parametrize(
    ("threshold", "eta", "expected"),
    [(0.6, 1.0, [*range(0, BOXES, 2)]), (0.7, 0.97, [0, *range(1, BOXES, 2)])],
)
def test_a_chain_is_decided_link_by_link(
    monkeypatch: pytest.MonkeyPatch, threshold: float, eta: float, expected: list[int], way: str
) -> None:
    """Neighbours overlap by 2/3, the next ones by 3/7: the last decision depends on all. 0.7 shrinks to 0.659."""
    patch_limits(monkeypatch, way)
    places = np.arange(BOXES, dtype=np.float32)
    row = np.stack([2 * places, 0 * places, 2 * places + 10, 0 * places + 1], -1)
    scores, boxes = np.tile(1 - places / 99, (LISTS, 1)), np.tile(row, (LISTS, 1, 1))
    rule = Suppression(threshold, of_normalized_corners, eta=eta)
    found = kept_on("reference", graph_of(rule, BOXES, BOXES), scores.astype(np.float32), boxes)
    assert found == [expected] * LISTS


@pytest.mark.parametrize(
    ("overlapping", "empty", "expected"), [(True, False, 1), (False, False, 7), (True, True, 0)]
)
@pytest.mark.parametrize("way", WAYS_TO_DECIDE)
def test_equal_boxes_far_boxes_and_none(
    monkeypatch: pytest.MonkeyPatch, way: str, overlapping: bool, empty: bool, expected: int
) -> None:
    patch_limits(monkeypatch, way)
    corners = np.arange(BOXES, dtype=np.float32)[:, None] * (0 if overlapping else 3) + [0, 0, 1, 1]
    scores = np.full((LISTS, BOXES), 0 if empty else 0.5, np.float32)
    boxes = np.tile(corners.astype(np.float32), (LISTS, 1, 1))
    found = kept_on("reference", graph_of(Suppression(0.5, of_normalized_corners), 20, 7), scores, boxes)
    assert [row[:7] for row in found] == [[*range(expected)]] * LISTS


def rounds(graph: Graph) -> int | None:
    """The number of rounds, None where it depends on the boxes."""
    (loop,) = (node.op for node in graph.nodes if isinstance(node.op, While))
    return loop.rounds


@pytest.mark.parametrize(("before", "expected"), [(16, 1), (400, 25), (512, 32), (513, None)])
def test_few_boxes_take_a_fixed_number_of_rounds(before: int, expected: int | None) -> None:
    assert rounds(graph_of(Suppression(0.5, of_normalized_corners), before, 100, 2, 600)) == expected


@pytest.mark.parametrize("eta", [1.0, 0.9])
def test_memory_does_not_grow_with_the_square_of_the_boxes(eta: float) -> None:
    """6000 boxes are 36 million pairs."""
    graph = graph_of(Suppression(0.5, of_normalized_corners, eta=eta), 6000, 300, 1, 21546)
    largest = max(element_count(value.shape) for node in walk(graph) for value in node.outputs)
    assert largest <= 256 * 300


@pytest.mark.parametrize(
    ("lists", "most", "expected"),
    [(1, 300, 256), (1, 2000, 256), (20, 100, 128), (80, 100, 64), (10_000, 300, 32), (1, 5, 256)],
)
def test_many_lists_have_small_blocks(lists: int, most: int, expected: int) -> None:
    assert block_size(lists, 6000, most) == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("most_native", [7, suppression.MOST_NATIVE])
@given(
    threshold=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    overlap=st.sampled_from([*NATIVE]),
    drops_equal=st.booleans(),
    most=st.integers(1, BOXES),
    seed=st.integers(0, 99),
)
@settings(max_examples=5)
def test_native_layers_keep_the_same(
    way: Way, most_native: int, threshold: float, overlap: Overlap, drops_equal: bool, most: int, seed: int
) -> None:
    """In one part and in several, of corners, pixels and centres. Sides are whole, so overlaps are exact."""
    rule = Suppression(threshold, overlap, drops_equal=drops_equal, is_native=True)
    scores, boxes = drawn(seed, least=1)
    if overlap is of_centres:
        boxes = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suppression, "MOST_NATIVE", most_native)
        graph = graph_of(rule, 20, most)
    layers = sum(isinstance(node.op, NonMaxSuppression) for node in graph.nodes)
    assert layers == (0 if threshold == 0 and drops_equal else 3 if most_native == 7 else 1)
    in_primitives = graph_of(replace(rule, is_native=False), 20, most)
    assert kept_on(way, graph, scores, boxes) == kept_on("reference", in_primitives, scores, boxes)


@pytest.mark.parametrize(("before", "is_native"), [(6000, True), (12_000, False)])
def test_a_list_that_is_too_long_for_layers(before: int, is_native: bool) -> None:
    """Boxes in different parts are compared in pairs."""
    graph = graph_of(Suppression(0.5, of_pixel_corners, is_native=True), before, 300, 1, 20_000)
    assert any(isinstance(node.op, NonMaxSuppression) for node in graph.nodes) == is_native
