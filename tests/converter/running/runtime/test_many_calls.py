"""Very many calls: nothing is captured again and again, and nothing piles up."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.converter.running.runtime.launcher import GRAPHS_AT_MOST
from prototrt.surgery.ir import Array, fixed
from prototrt.tests.bench.calling import STREAM, IdleDevice
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident
from prototrt.tests.converter.running.runtime.fake_tensorrt import contexts_of, fake_engine
from prototrt.tests.converter.running.runtime.test_cuda_graphs import any_streams, continuing_step

CALLS = 200_000
SHAPES, BUFFERS = (4, 7), 4
PART = 5000


@dataclass
class CountingDevice(IdleDevice):
    """A GPU on which nothing happens, and that counts captures, and memory that it hands out."""

    captures: int = 0
    allocations: int = 0

    def capture(self, stream: int, enqueue: Callable[[], None]) -> Any:
        self.captures += 1
        return super().capture(stream, enqueue)

    def allocate(self, size: int) -> int:
        self.allocations += 1
        return super().allocate(size)

    def write(self, address: int, array: Array) -> None:
        pass


@pytest.mark.slow
def test_many_calls() -> None:
    """Prepared calls of two shapes, with four sets of buffers each, in turn; a reset of some streams now and then."""
    graph, size = any_streams()
    device = CountingDevice()
    engine = fake_engine(graph, device)
    session = prototrt.Session(engine, stream=STREAM)
    hidden = fixed(session.signature.results[0].shape[2], "the size of h")
    calls = [
        session.prepare(
            {name: DeviceResident(device, array) for name, array in continuing_step(streams, size).items()},
            {"h": DeviceResident(device, np.zeros((1, streams, hidden), np.float32))},
        ).run
        for streams in SHAPES
        for _ in range(BUFFERS)
    ]
    turns = [calls[:BUFFERS], calls[BUFFERS:]]

    def part() -> None:
        for number in range(PART // BUFFERS):
            for call in turns[number % 2]:
                call()
            if not number % 10:
                session.reset(streams=range(3))
                calls[0]()  # from now on each set of buffers is used with the other half of the state
            session.reset()

    part()
    allocations, captures, own = device.allocations, device.captures, 3 * len(calls)
    tracemalloc.start()
    part()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    for _ in range(CALLS // PART - 3):
        part()
    tracemalloc.start()
    part()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert captures == GRAPHS_AT_MOST == 2 * len(calls)
    assert (device.captures, device.allocations) == (captures, allocations)
    assert len(contexts_of(engine)) == 2
    assert sum(len(context.runs) for context in contexts_of(engine)) < 100
    assert after - before < 10_000
    session.close()
    assert len(device.memory) == own
