"""Whether an engine loads here and runs, built by either TensorRT; and what one net's engine is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.driver import find_driver
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.builder import build
from prototrt.converter.checking.machines.gpu_support import BACKEND_NAMES, can_run
from prototrt.converter.checking.selftest.goldens import PRECISIONS, largest, near
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.converter.checking.selftest.rows import Check, NotHereError
from prototrt.converter.options import BackendName
from prototrt.converter.running.sessions.session import Session
from prototrt.surgery.ir import Graph
from prototrt.surgery.options import Precision

SIZE = Size(hidden=64, steps=1, streams=4)
_CALLS = 8
"""Enough for the ordinary run, both captures of a CUDA graph, and replays of each."""


def engine_session(graph: Graph, **options: object) -> Session:
    return Session(graph, on="engine", **options)  # type: ignore[arg-type]  # they are Session's


def backends() -> Iterator[Check]:
    """Which TensorRT runs its own plans on this architecture, in each precision."""
    for name, title in BACKEND_NAMES.items():
        for precision in PRECISIONS:
            attempt = build_check(name, precision)
            yield Check(f"{title} runs an LSTM, {precision}", attempt, keeps_whole_error=True)


def build_check(name: BackendName, precision: Precision) -> Callable[[], str]:
    def attempt() -> str:
        graph = lstm_graph(SIZE, "step", precision)
        refuse_old_gpu(importable(name))
        plan = build(graph, backend=name)
        return follow(Session(plan, on="engine"), graph, precision)

    return attempt


def refuse_old_gpu(name: BackendName) -> None:
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


def follow(session: Session, graph: Graph, precision: Precision) -> str:
    """Some calls of an engine beside the primitives, each with its own state."""
    random = np.random.default_rng(1)
    shapes = {
        value.name: tuple(map(int, value.shape)) for value in graph.inputs if value.name in ("x", "cont")
    }
    with session:
        reference, worst = Session(graph), []
        for _ in range(_CALLS):
            feeds = {"x": random.standard_normal(shapes["x"], np.float32)}
            if "cont" in shapes:
                feeds["cont"] = np.ones(shapes["cont"], np.float32)
            worst.append(near(session.run(feeds)["h"], reference.run(feeds)["h"], precision, "h"))
        return largest(*worst)
