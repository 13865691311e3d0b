"""What a session does beside computing, on a GPU: always against the primitives in NumPy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import prototrt
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.gpu.nets import Size, lstm_graph
from prototrt.tests.gpu.rows import Row, tried
from prototrt.tests.gpu.timing import torch_with_gpu

SIZE = Size(hidden=32, steps=1, streams=3)
CALLS = 6
"""Enough to replay the graphs of the even and of the odd call."""
Run = Callable[[dict[str, Array]], Array]


def sessions(session_of: Callable[[Graph], prototrt.Session]) -> Iterator[Row]:
    """Reset of some streams, a saved state, two threads on one engine, arrays of PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        graph = lstm_graph(SIZE, "step", Path(folder))
    yield tried("session, some streams are reset", lambda: reset(session_of(graph), graph))
    yield tried("session, saved and resumed", lambda: resumed(session_of(graph), graph))
    yield tried("session, two threads on one engine", lambda: threads(session_of(graph), graph))
    torch = torch_with_gpu()
    if torch is None:
        yield Row("session, arrays of PyTorch", "not tried", "there is no PyTorch that sees the GPU")
    else:
        yield tried("session, arrays of PyTorch", lambda: shared(session_of(graph), graph, torch))


def reset(session: prototrt.Session, graph: Graph) -> str:
    reference = prototrt.Session(graph)
    worst = followed(plain(session), reference, 0)
    for one in (session, reference):
        one.reset(streams=[0, 2])
    return told(worst, followed(plain(session), reference, 1))


def resumed(session: prototrt.Session, graph: Graph) -> str:
    reference = prototrt.Session(graph)
    followed(plain(session), reference, 0)
    saved = session.get_state()
    followed(plain(session), going_on_from(reference, graph), 1)
    session.set_state(saved)
    return told(followed(plain(session), reference, 2))


def threads(first: prototrt.Session, graph: Graph) -> str:
    def conversation(session: prototrt.Session, seed: int) -> float:
        return followed(plain(session), prototrt.Session(graph), seed)

    with ThreadPoolExecutor(2) as pool:
        both = pool.map(conversation, (first, prototrt.Session(first.engine)), (1, 2))
        return told(*both)


def shared(session: prototrt.Session, graph: Graph, torch: Any) -> str:
    def run(feeds: dict[str, Array]) -> Array:
        there = {name: torch.from_numpy(array).cuda() for name, array in feeds.items()}
        target = torch.empty(SIZE.steps, SIZE.streams, SIZE.hidden, device="cuda")
        torch.cuda.synchronize()
        session.run(there, outputs={"h": target})
        return np.asarray(target.cpu().numpy())

    return told(followed(run, prototrt.Session(graph), 3))


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
        found, wanted = run(feeds), reference.run(feeds)["h"]
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
        worst = max(worst, float(np.abs(found - wanted).max()))
    return worst


def told(*differences: float) -> str:
    return f"largest difference {max(differences):.1e}"
