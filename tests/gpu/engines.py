"""What an engine may be besides right: of either TensorRT, of varying sizes, replayed, with our plugin."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import numpy as np

import prototrt
from prototrt import BackendName, Precision, TileForm
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.tensorrt.api import find_backend
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.pipeline import PRECISIONS
from prototrt.tests.dynamic_lstm import dynamic_graph, feeds_of
from prototrt.tests.gpu.goldens import near, told
from prototrt.tests.gpu.nets import Size, lstm_graph, tile_graph
from prototrt.tests.gpu.rows import Check, NotHereError
from prototrt.tests.gpu.sessions import SessionOf

_NAMES: dict[BackendName, str] = {"rtx": "TensorRT for RTX", "enterprise": "TensorRT"}
_SIZE = Size(hidden=64, steps=1, streams=4)
CALLS = 8
"""Enough for the ordinary run, both captures, and replays of each."""


def backends() -> Iterator[Check]:
    """Which TensorRT runs its own plans on this architecture, at either precision."""
    for name in _NAMES:
        for precision in PRECISIONS:
            what = f"{_NAMES[name]} runs an LSTM, {precision}"
            yield Check(what, built_by(name, precision), is_told_whole=True)


def built_by(name: BackendName, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph = lstm(precision)
        plan = prototrt.build(graph, backend=importable(name))
        return followed(prototrt.Session(plan, on="engine"), graph, precision)

    return attempt


def importable(name: BackendName) -> BackendName:
    try:
        find_backend(name)
    except BuildError as error:
        raise NotHereError(error.problem) from error
    return name


def profiles(session_of: SessionOf) -> Iterator[Check]:
    """Calls of other sizes, within the profile of one engine."""
    for precision in PRECISIONS:
        yield Check(f"profile, calls of other T and N, {precision}", varied(session_of, precision))


def varied(session_of: SessionOf, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        session, reference = session_of(dynamic_graph(precision)), prototrt.Session(dynamic_graph(precision))
        worst = []
        for streams in (3, 7, 1):
            for length in (3, 1, 8, 2):
                feeds = feeds_of(length, streams, seed=10 * streams + length)
                found, wanted = session.run(feeds)["h"], reference.run(feeds)["h"]
                worst.append(near(found, wanted, precision, f"h of {length} steps, {streams} streams"))
            session.reset()
            reference.reset()
        return told(*worst)

    return attempt


def replays(session_of: SessionOf) -> Iterator[Check]:
    """A step that is replayed from CUDA graphs, against the same queued call by call."""
    for precision in PRECISIONS:
        yield Check(f"CUDA graph against plain enqueue, {precision}", replayed(session_of, precision))


def replayed(session_of: SessionOf, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph = lstm(precision)
        with session_of(graph) as with_graphs, session_of(graph, graphs=False) as without:
            for feeds in calls():
                np.testing.assert_array_equal(with_graphs.run(feeds)["h"], without.run(feeds)["h"])
            launcher = with_graphs._runner._launcher  # type: ignore[attr-defined]  # nothing else tells
            assert len(launcher._graphs) == 2, f"{len(launcher._graphs)} graphs were captured, expected 2"
        return "the same, bit by bit"

    return attempt


def plugins() -> Iterator[Check]:
    """The Tile plugin inside an engine: by itself, and as the delta of an LSTM."""
    for precision in PRECISIONS:
        yield Check(f"Tile plugin in an engine, {precision}", with_plugin(tile_graph(precision), precision))
        graph = lstm(precision, tile="keep")
        yield Check(f"Tile plugin in an LSTM, {precision}", with_plugin(graph, precision))


def with_plugin(graph: Graph, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        importlib.import_module("prototrt.plugins.tile")
        plan = prototrt.build(graph, backend=importable("enterprise"), tile="plugin")
        return followed(prototrt.Session(plan, on="engine"), graph, precision)

    return attempt


def lstm(precision: Precision, tile: TileForm = "broadcast") -> Graph:
    return lstm_graph(_SIZE, "step", precision, tile)


def calls() -> Iterator[dict[str, Array]]:
    random = np.random.default_rng(1)
    for _ in range(CALLS):
        yield {
            "x": random.standard_normal((1, _SIZE.streams, _SIZE.hidden), np.float32),
            "cont": np.ones((1, _SIZE.streams), np.float32),
        }


def followed(session: prototrt.Session, graph: Graph, precision: Precision) -> str:
    """Some calls of an engine beside the primitives, each with its own state."""
    with session:
        reference = prototrt.Session(graph)
        worst = [
            near(session.run(feeds)["h"], reference.run(feeds)["h"], precision, "h") for feeds in calls()
        ]
    return told(*worst)
