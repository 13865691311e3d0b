"""What is timed on a GPU, and how: on a fake one whose clock we turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form, Precision
from prototrt.converter.checking.selftest import speed, timing
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.converter.checking.selftest.rows import row_of
from prototrt.converter.checking.selftest.timing import Spread, Stopwatch
from prototrt.converter.running.runtime.memory import Memory
from prototrt.converter.running.runtime.resident import Resident
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine


class ClockedDevice(FakeDevice):
    """Its events return the number of queued pieces of work, in thousandths of a second."""

    time = 0.0

    def _call(self, name: str, *arguments: Any) -> Any:
        if name == "cudaEventCreate":
            return [0.0]
        if name == "cudaEventRecord":
            arguments[0][0] = self.time
        if name == "cudaEventElapsedTime":
            return arguments[1][0] - arguments[0][0]
        return None

    def queue(self, stream: int, work: Any) -> None:
        self.time += 1
        super().queue(stream, work)


def test_costs_of_one_lstm() -> None:
    """By hand: 2 inputs, 2 hidden units, 3 steps, 5 streams; a step multiplies (8 x 4) with 5 columns."""
    size = Size(hidden=2, steps=3, streams=5)
    assert size.multiply_adds == 3 * 5 * 32
    assert size.weight_bytes == (8 * 4 + 8) * 4
    assert size.moved_bytes == 160 + (30 + 30 + 20 + 20) * 4


def test_floors_of_both_precisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: half the bytes, and in this GPU four times the products."""
    monkeypatch.setattr(speed, "peak_bytes_per_second", lambda watch: 560.0)
    speeds = {"float32": 960.0, "float16": 3840.0}
    monkeypatch.setattr(speed, "peak_multiply_adds_per_second", lambda watch, dtype: speeds[dtype])
    rivals = speed.Rivals(None)  # type: ignore[arg-type]  # nothing is timed
    size = Size(hidden=2, steps=3, streams=5)
    assert rivals.floors(size, "fp32") == (1.0, 0.5)
    assert rivals.floors(size, "fp16") == (0.5, 0.125)


def test_sizes_and_ways() -> None:
    assert len(set(speed.SIZES)) == 4
    assert [way for way, *_ in speed.ways(Size(256, 1, 1))] == ["step, queued", "step, CUDA graph"]
    assert [way for way, *_ in speed.ways(Size(256, 16, 1))] == [
        "loop",
        "unroll, queued",
        "unroll, CUDA graph",
    ]
    assert [way for way, *_ in speed.ways(Size(256, 128, 1))] == ["loop"]


def test_numbers_of_a_row() -> None:
    spread = Spread(shortest=7e-6, median=8e-6, p99=9e-6, in_a_row=5e-6, wall=6e-6)
    row = speed.numbers(spread, 4, 4e-6, 1e-6, 5e-7)
    assert row == (
        "7.0 us",
        "8.0 us",
        "9.0 us",
        "5.0 us",
        "6.0 us",
        "2.0 us",
        "4.0 us",
        "2.00",
        "1.0 us",
        "0.5 us",
    )
    assert speed.numbers(spread, 4, None, 1e-6, None)[6:] == ("-", "-", "1.0 us", "-")
    assert len(row) + 2 == len(speed.COLUMNS)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("steps", "sequence"), [(1, "step"), (4, "loop"), (4, "unroll")])
def test_the_net_that_is_timed(steps: int, sequence: Form, precision: Precision) -> None:
    graph = lstm_graph(Size(8, steps, 2), sequence, precision)
    results = prototrt.Session(graph).run({"x": np.ones((steps, 2, 8)), "cont": np.ones((steps, 2))})
    assert results["h"].shape == (steps, 2, 8)
    assert results["h"].any()


@pytest.mark.trt
@pytest.mark.slow
def test_timings_on_a_fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay and a queued run are one piece of work each; of PyTorch there is nothing to tell."""
    monkeypatch.setattr(timing, "_COPIED_BYTES", 1 << 10)
    monkeypatch.setattr(timing, "torch_with_gpu", lambda: None)
    device: Any = ClockedDevice()

    def session_of(graph: Any, **options: Any) -> prototrt.Session:
        prototrt.build(graph, backend="rtx")
        assert options.pop("device") is device
        return prototrt.Session(fake_engine(graph, device), **options)

    sizes = [Size(8, 1, 2), Size(8, 4, 2)]
    rows = [row_of(check) for check in speed.timings(session_of, lambda: Stopwatch(device), sizes)]
    assert [row.what for row in rows] == [
        f"H 8, T {steps}, N 2, {precision}, {way}"
        for steps, ways in (
            (1, ("step, queued", "step, CUDA graph")),
            (4, ("loop", "unroll, queued", "unroll, CUDA graph")),
        )
        for precision in speed.PRECISIONS
        for way in ways
    ]
    assert {row.verdict for row in rows} == {"ok"}, rows[0]
    assert {row.details[:4] for row in rows} == {("1000.0 us",) * 4}
    steps = 2 * len(speed.PRECISIONS)
    assert {row.details[5:8] for row in rows[:steps]} == {("1000.0 us", "-", "-")}
    assert {row.details[5] for row in rows[steps:]} == {"250.0 us"}


def test_what_the_stopwatch_gives() -> None:
    """Ten calls warm up, five are timed alone, five in a row; the clock is turned by 2 ms, once by 1 s."""
    device: Any = ClockedDevice()
    watch, calls = Stopwatch(device), []

    def work() -> None:
        calls.append(1)
        device.time += 1000 if len(calls) == 12 else 2

    spread = watch.spread(work, repeats=5)
    assert (spread.shortest, spread.median, spread.p99, spread.in_a_row) == (0.002, 0.002, 1.0, 0.002)
    assert 0 < spread.wall < 1
    assert len(calls) == 20


def test_resident_arrays_are_described() -> None:
    device: Any = FakeDevice()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    resident = Resident(Memory(device), array, 0)
    assert resident.__cuda_array_interface__["shape"] == (2, 3)
    np.testing.assert_array_equal(device.read(resident.address, (2, 3), "float32"), array)
