"""What a session does beside computing, on a GPU: always against the primitives in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import prototrt
from prototrt.converter.checking.selftest.nets import SessionOf, Size, lstm_graph
from prototrt.converter.checking.selftest.rows import Check
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.checking.selftest.engine_checks import varying_lstm

SIZE = Size(hidden=32, steps=1, streams=3)
CALLS = 6
"""Enough to replay the graphs of the even and of the odd call."""
Feeds = dict[str, Array]
Run = Callable[[Feeds], Array]


def small_lstm() -> Graph:
    return lstm_graph(SIZE, "step")


def sessions(session_of: SessionOf) -> Iterator[Check]:
    """Reset of some streams, a saved state, two threads on one engine, many streams in one call."""
    graph = small_lstm()
    yield Check("session, some streams are reset", lambda: reset(session_of(graph), graph))
    yield Check("session, saved and resumed", lambda: resumed(session_of(graph), graph))
    yield Check("session, two threads on one engine", lambda: threads(session_of(graph), graph))
    many = varying_lstm()
    yield Check("sessions, streams that come and go", lambda: streams(session_of(many), many))


def reset(session: prototrt.Session, graph: Graph) -> str:
    reference = prototrt.Session(graph)
    worst = followed(plain(session), reference, 0)
    for one in (session, reference):
        one.reset(streams=[0, 2])
    return largest_of(worst, followed(plain(session), reference, 1))


def resumed(session: prototrt.Session, graph: Graph) -> str:
    reference = prototrt.Session(graph)
    followed(plain(session), reference, 0)
    saved = session.get_state()
    followed(plain(session), going_on_from(reference, graph), 1)
    session.set_state(saved)
    return largest_of(followed(plain(session), reference, 2))


def threads(first: prototrt.Session, graph: Graph) -> str:
    def conversation(session: prototrt.Session, seed: int) -> float:
        return followed(plain(session), prototrt.Session(graph), seed)

    with ThreadPoolExecutor(2) as pool:
        both = pool.map(conversation, (first, prototrt.Session(first.engine)), (1, 2))
        return largest_of(*both)


def streams(session: prototrt.Session, graph: Graph) -> str:
    """Five streams of one engine, some of them ready at a time, each beside a session of its own."""
    random, worst = np.random.default_rng(1), 0.0
    with prototrt.Sessions(session, streams=5) as pool:
        references = {pool.open(): prototrt.Session(graph) for _ in range(5)}
        for call in range(4 * CALLS):
            if call % CALLS == CALLS - 1:
                stream = next(iter(references))
                pool.close(stream)
                del references[stream]
                references[pool.open()] = prototrt.Session(graph)
            ready = [stream for stream in references if random.random() < 0.7]
            feeds = {stream: {"x": random.standard_normal((2, 1, 8), np.float32)} for stream in ready}
            for stream, result in pool.step(feeds).items():
                begins = not references[stream].state
                cont = np.array([[0 if begins else 1], [1]], np.float32)
                expected = references[stream].run({**feeds[stream], "cont": cont})["h"]
                np.testing.assert_allclose(result["h"], expected, rtol=1e-3, atol=1e-4)
                worst = max(worst, float(np.abs(result["h"] - expected).max()))
    return largest_of(worst)


def plain(session: prototrt.Session) -> Run:
    return lambda feeds: session.run(feeds)["h"]


def going_on_from(session: prototrt.Session, graph: Graph) -> prototrt.Session:
    """Another session that goes on from the state of this one."""
    other = prototrt.Session(graph)
    other.set_state(session.get_state())
    return other


def followed(run: Run, reference: prototrt.Session, seed: int) -> float:
    """Some calls of both; the largest difference. Raises ``AssertionError`` where it is too large."""
    random, worst = np.random.default_rng(seed), 0.0
    for _ in range(CALLS):
        feeds = {
            "x": random.random((SIZE.steps, SIZE.streams, SIZE.hidden), np.float32),
            "cont": np.ones((SIZE.steps, SIZE.streams), np.float32),
        }
        result, expected = run(feeds), reference.run(feeds)["h"]
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
        worst = max(worst, float(np.abs(result - expected).max()))
    return worst


def largest_of(*differences: float) -> str:
    return f"largest difference {max(differences):.1e}"
