"""Rows of detections that change places where their scores are as good as equal; everything else is an error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import prototrt
from prototrt.converter.checking.verification.comparison import TOLERANCES, in_order_of, row_axis
from prototrt.converter.checking.verification.verify import verify
from prototrt.converter.options import CompareOptions
from prototrt.converter.running.sessions.session import WAYS
from prototrt.surgery.ir import Array, AtMost, Graph
from prototrt.tests.golden_cases import case_called, rewritten
from prototrt.tests.small_nets import float32

FLOAT = TOLERANCES["fp32"]
DETECTIONS = float32(
    [
        [0, 1, 0.9, 0.1, 0.1, 0.3, 0.3],
        [0, 1, 0.5, 0.2, 0.1, 0.4, 0.3],
        [0, 1, 0.5 - 3e-8, 0.7, 0.1, 0.9, 0.3],
        [0, 1, 0.4, 0.3, 0.5, 0.5, 0.9],
        [0, 2, 0.8, 0.6, 0.5, 0.7, 0.9],
    ]
)
REGIONS = float32([[0, 1, 2, 30, 40], [0, 50, 2, 70, 40], [0, 7, 12, 33, 44], [0, 9, 2, 31, 41]])
"""Without scores."""


def swapped(rows: Array, *places: int) -> Array:
    """With the rows of two places changed."""
    a, b = places
    order = [*range(len(rows))]
    order[a], order[b] = b, a
    return rows[order]


def agrees(expected: Array, actual: Array) -> bool:
    matched = in_order_of(expected, actual, 0, FLOAT)
    return bool((np.abs(matched - expected) <= FLOAT.limit(float(np.abs(expected).max()))).all())


def changed(place: int, column: int, by: float) -> Array:
    rows = swapped(DETECTIONS, 1, 2)
    rows[place, column] += by
    return rows


SAME = {
    "rows with one score": (DETECTIONS, swapped(DETECTIONS, 1, 2)),
    "no row moves": (DETECTIONS, DETECTIONS),
    "neighbours without a score": (REGIONS, swapped(REGIONS, 2, 3)),
    "three with one score": (DETECTIONS[[1, 1, 1]] + np.eye(3, 7, 3, dtype=np.float32), None),
}
OTHER = {
    "rows with other scores": (DETECTIONS, swapped(DETECTIONS, 2, 3)),
    "rows of other classes": (DETECTIONS, swapped(DETECTIONS, 3, 4)),
    "another score": (DETECTIONS, changed(1, 2, 0.01)),
    "another box": (DETECTIONS, changed(2, 4, 0.01)),
    "another class": (DETECTIONS, changed(1, 1, 1)),
    "far away without a score": (REGIONS, swapped(REGIONS, 0, 3)),
    "a row twice": (DETECTIONS, DETECTIONS[[0, 1, 1, 3, 4]]),
}


@pytest.mark.parametrize("case", SAME)
def test_tied_rows_may_change_places(case: str) -> None:
    expected, actual = SAME[case]
    assert agrees(expected, expected[[2, 0, 1]] if actual is None else actual)


@pytest.mark.parametrize("case", OTHER)
def test_what_is_no_tie_is_a_difference(case: str) -> None:
    assert not agrees(*OTHER[case])


def test_the_graph_knows_which_values_are_lists() -> None:
    assert row_axis((1, 1, AtMost(20, "count"), 7)) == 2
    assert row_axis((1, 20, 7)) is None


BREAKS = {"scores": (2, 0.05), "boxes": (4, 0.05), "classes": (1, 1)}


def ssd() -> tuple[Graph, list[dict[str, Array]]]:
    case = case_called("net_ssd")
    feeds = case.arrays("inputs")[0]
    return rewritten(case, feeds), [dict(feeds)]


def wrong_way(monkeypatch: pytest.MonkeyPatch, column: int, by: float) -> None:
    """The way "onnx" becomes the reference with a column of detections changed."""

    @dataclasses.dataclass
    class Wrong:
        graph: Graph

        def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
            results = {**WAYS["reference"](self.graph).run(feeds)}
            detections = np.array(results["detection_out"])
            detections[0, 0, 0, column] += np.float32(by)
            return {**results, "detection_out": detections}

    monkeypatch.setitem(WAYS, "onnx", lambda graph, *_: Wrong(graph))


@pytest.mark.parametrize("what", BREAKS)
def test_wrong_detections_are_an_alarm(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_way(monkeypatch, *BREAKS[what])
    graph, feeds = ssd()
    with pytest.raises(prototrt.VerificationError, match="onnx and reference diverge here"):
        verify(graph, feeds, CompareOptions(ways=["onnx"])).refuse()


def test_tied_detections_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, feeds = ssd()
    wrong_way(monkeypatch, 2, 0)
    assert verify(graph, feeds, CompareOptions(ways=["onnx"])).holds
