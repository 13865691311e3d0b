"""What an engine may be besides right: of either TensorRT, of varying sizes, replayed, with our plugin."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.driver import find_driver
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import build
from prototrt.converter.checking.machines.gpu_support import BACKEND_NAMES, can_run
from prototrt.converter.checking.selftest.goldens import PRECISIONS, largest, near
from prototrt.converter.checking.selftest.nets import SessionOf, Size, lstm_graph, tile_graph, varying_lstm
from prototrt.converter.checking.selftest.rows import Check, NotHereError
from prototrt.converter.options import BackendName
from prototrt.converter.running.sessions.session import Session
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.options import Precision, TileForm

_SIZE = Size(hidden=64, steps=1, streams=4)
CALLS = 8
"""Enough for the ordinary run, both captures, and replays of each."""


def engine_session(graph: Graph, **options: object) -> Session:
    return Session(graph, on="engine", **options)  # type: ignore[arg-type]  # they are Session's


def backends() -> Iterator[Check]:
    """Which TensorRT runs its own plans on this architecture, in each precision."""
    for name, title in BACKEND_NAMES.items():
        for precision in PRECISIONS:
            attempt = built_by(name, precision)
            yield Check(f"{title} runs an LSTM, {precision}", attempt, keeps_whole_error=True)


def built_by(name: BackendName, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph = lstm(precision)
        refuse_unsupported(importable(name))
        plan = build(graph, backend=name)
        return followed(Session(plan, on="engine"), graph, precision)

    return attempt


def refuse_unsupported(name: BackendName) -> None:
    """Raise ``NotHereError`` for a TensorRT that refuses the GPU on which a session runs, the first one."""
    driver = find_driver()
    if driver is not None and driver.gpus:
        verdict = can_run(name, find_backend(name).version, driver.gpus[0])
        if verdict.answer == "no":
            raise NotHereError(str(verdict.reason))


def importable(name: BackendName) -> BackendName:
    try:
        find_backend(name)
    except BuildError as error:
        raise NotHereError(error.problem) from error
    return name


def build_size(graph: Graph) -> str:
    """Build a net with TensorRT for RTX, which needs no GPU."""
    return f"{len(build(graph, backend=importable('rtx')).plan)} bytes"


def profiles(session_of: SessionOf) -> Iterator[Check]:
    """Calls of other sizes, within the profile of one engine."""
    for precision in PRECISIONS:
        yield Check(f"profile, calls of other T and N, {precision}", varied(session_of, precision))


def varied(session_of: SessionOf, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph, random, worst = varying_lstm(precision), np.random.default_rng(1), []
        with session_of(graph) as session:
            reference = Session(graph)
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
        yield Check(f"CUDA graph against plain enqueue, {precision}", replayed(session_of, precision))


def replayed(session_of: SessionOf, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph = lstm(precision)
        with session_of(graph) as with_graphs, session_of(graph, graphs=False) as without:
            for feeds in calls():
                np.testing.assert_array_equal(with_graphs.run(feeds)["h"], without.run(feeds)["h"])
            launcher = with_graphs._runner._launcher  # type: ignore[attr-defined]  # nothing public counts graphs
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
        plan = build(graph, backend=importable("enterprise"), tile="plugin")
        return followed(Session(plan, on="engine"), graph, precision)

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


def followed(session: Session, graph: Graph, precision: Precision) -> str:
    """Some calls of an engine beside the primitives, each with its own state."""
    with session:
        reference, worst = Session(graph), []
        for arrays in calls():
            feeds = {value.name: arrays[value.name] for value in graph.inputs if value.name in arrays}
            worst.append(near(session.run(feeds)["h"], reference.run(feeds)["h"], precision, "h"))
        return largest(*worst)
