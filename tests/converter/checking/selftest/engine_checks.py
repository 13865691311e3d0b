"""What an engine may be besides right: of varying sizes, replayed, with the Tile plugin, verified."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import numpy as np

import prototrt
from prototrt import Precision
from prototrt.converter.checking.selftest.engines import SIZE, follow, importable
from prototrt.converter.checking.selftest.goldens import PRECISIONS, largest, near
from prototrt.converter.checking.selftest.nets import (
    SessionOf,
    Size,
    lstm_graph,
    lstm_prototxt,
    random_graph,
)
from prototrt.converter.checking.selftest.rows import Check
from prototrt.converter.checking.verification.seeded import seeded_feeds
from prototrt.converter.checking.verification.verify import verify
from prototrt.converter.options import CompareOptions
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.golden_cases import GOLDENS

_GOLDEN = GOLDENS / "caffe" / "lstm_carry"
_CALLS = 8
"""Enough for the ordinary run, both captures, and replays of each."""
_TILE = """
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 64 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 8 axis: 2 } }
layer { name: "h" type: "Tile" bottom: "ip" top: "h" tile_param { axis: 1 tiles: 5 } }
"""


def varying_lstm(precision: Precision = "fp32") -> Graph:
    """D and H are 8; T varies from 1 to 8, N from 1 to 7."""
    sizes = {"min_shapes": {"x": (1, 1, 8), "cont": (1, 1)}, "max_shapes": {"x": (8, 7, 8), "cont": (8, 7)}}
    return random_graph(lstm_prototxt(Size(8, 8, 7)), precision=precision, **sizes)


def tile_graph(precision: Precision = "fp32") -> Graph:
    """``h``: a product, tiled."""
    return random_graph(_TILE, precision=precision, tile="keep")


def profiles(session_of: SessionOf) -> Iterator[Check]:
    """Calls of other sizes, within the profile of one engine."""
    for precision in PRECISIONS:
        yield Check(f"profile, calls of other T and N, {precision}", _varied(session_of, precision))


def _varied(session_of: SessionOf, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph, random, worst = varying_lstm(precision), np.random.default_rng(1), []
        with session_of(graph) as session:
            reference = prototrt.Session(graph)
            for streams in (3, 7, 1):
                for steps in (3, 1, 8, 2):
                    feeds = {
                        "x": random.standard_normal((steps, streams, 8), np.float32),
                        "cont": random.integers(0, 2, (steps, streams)).astype(np.float32),
                    }
                    result, expected = session.run(feeds)["h"], reference.run(feeds)["h"]
                    worst.append(near(result, expected, precision, f"h of {steps} steps, {streams} streams"))
                session.reset()
                reference.reset()
        return largest(*worst)

    return attempt


def replays(session_of: SessionOf) -> Iterator[Check]:
    """A step that is replayed from CUDA graphs, against the same queued call by call."""
    for precision in PRECISIONS:
        yield Check(f"CUDA graph against plain enqueue, {precision}", _replayed(session_of, precision))


def _replayed(session_of: SessionOf, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph = lstm_graph(SIZE, "step", precision)
        with session_of(graph) as with_graphs, session_of(graph, graphs=False) as without:
            for feeds in _calls():
                np.testing.assert_array_equal(with_graphs.run(feeds)["h"], without.run(feeds)["h"])
            launcher = with_graphs._runner._launcher  # type: ignore[union-attr]  # nothing public counts graphs
            assert len(launcher._graphs) == 2, f"{len(launcher._graphs)} graphs were captured, expected 2"
        return "the same, bit by bit"

    return attempt


def _calls() -> Iterator[dict[str, Array]]:
    random = np.random.default_rng(1)
    for _ in range(_CALLS):
        yield {
            "x": random.standard_normal((1, SIZE.streams, SIZE.hidden), np.float32),
            "cont": np.ones((1, SIZE.streams), np.float32),
        }


def plugins(_: SessionOf) -> Iterator[Check]:
    """The Tile plugin inside an engine of enterprise TensorRT: by itself, and as the delta of an LSTM."""
    for precision in PRECISIONS:
        yield Check(f"Tile plugin in an engine, {precision}", _with_plugin(tile_graph(precision), precision))
        graph = lstm_graph(SIZE, "step", precision, tile="keep")
        yield Check(f"Tile plugin in an LSTM, {precision}", _with_plugin(graph, precision))


def _with_plugin(graph: Graph, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        importlib.import_module("prototrt.plugins.tile")
        plan = prototrt.build(graph, backend=importable("enterprise"), tile="plugin")
        return follow(prototrt.Session(plan, on="engine"), graph, precision)

    return attempt


def verification(_: SessionOf) -> Iterator[Check]:
    """What ``verify`` says of an engine."""
    for precision in PRECISIONS[:2]:
        yield Check(f"verify on engine, {precision}", verified(precision))


def verified(precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        model = prototrt.load(_GOLDEN / "model.prototxt", _GOLDEN / "model.caffemodel")
        graph, truth = (prototrt.rewrite(model, precision=each) for each in (precision, "fp32"))
        result = verify(graph, seeded_feeds(truth, 3), CompareOptions(ways=("engine",)), truth=truth)
        assert result.holds, result.verdict
        return result.verdict

    return attempt
