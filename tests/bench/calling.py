"""What a call of an engine costs Python: every call of CUDA and TensorRT does nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import prototrt
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.bench.measuring import report
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine
from prototrt.tests.digit_strips import digits

CALLS, WARM_UP, STEPS = 2000, 200, 32
STREAM = 5


class _Replay:
    def launch(self, stream: int) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class IdleDevice(FakeDevice):
    """A GPU on which nothing ever happens."""

    @contextmanager
    def current(self) -> Iterator[None]:
        yield

    def queue(self, stream: int, work: Callable[[], None]) -> None:
        pass

    def synchronize(self, stream: int) -> None:
        pass

    def download(self, array: Array, address: int, stream: int) -> None:
        pass

    def capture(self, stream: int, enqueue: Callable[[], None]) -> Any:
        enqueue()
        return _Replay()

    def _count(self, name: str) -> None:
        pass


def main(net: str) -> None:
    graph = lstm_graph(Size(256, 1, 1), "step") if net == "lstm" else digits("deploy_stream.prototxt")
    report(
        {
            f"{way}, {arrays}": microseconds
            for arrays in ("GPU", "NumPy")
            for way, microseconds in _ways(graph, on_gpu=arrays == "GPU").items()
        }
    )


def _ways(graph: Graph, *, on_gpu: bool) -> dict[str, float]:
    device = IdleDevice()
    session = prototrt.Session(fake_engine(graph, device), stream=STREAM if on_gpu else None)
    signature = session.signature

    def arrays(values: Any, *first: int) -> dict[str, Any]:
        made = {value.name: np.ones((*first, *value.shape), np.float32) for value in values}
        return {name: DeviceResident(device, array) if on_gpu else array for name, array in made.items()}

    inputs = [value for value in signature.inputs if value.name not in signature.states]
    feeds, outputs = arrays(inputs), arrays(signature.results)
    many, results = arrays(inputs, STEPS), arrays(signature.results, STEPS)
    return {
        "run": _microseconds(lambda: session.run(feeds, outputs)),
        "prepared": _microseconds(session.prepare(feeds, outputs).run),
        "steps": _microseconds(lambda: session.run_steps(many, STEPS, results)) / STEPS,
    }


def _microseconds(call: Callable[[], object]) -> float:
    """The median of some calls."""
    found = []
    for _ in range(WARM_UP + CALLS):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return 1e6 * median(found[WARM_UP:])


if __name__ == "__main__":
    main(*sys.argv[2:])
