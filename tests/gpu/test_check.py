"""The parts of the GPU check that need no GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.errors import EngineError
from prototrt.converter.runtime.driver import find_driver
from prototrt.surgery.ir import Graph
from prototrt.tests.converter.runtime.fake_gpu import FakeFaultError, fake_engine
from prototrt.tests.gpu import check
from prototrt.tests.gpu.nets import Size, grid, lstm_graph
from prototrt.tests.gpu.rows import Row, tried
from prototrt.tests.gpu.sessions import sessions
from prototrt.tests.gpu.timing import Resident, Stopwatch

ROOT = Path(__file__).parents[2]


def fake_session(graph: Graph) -> prototrt.Session:
    return prototrt.Session(fake_engine(graph))


def test_goldens_on_the_fake_gpu() -> None:
    rows = list(check.goldens(fake_session))
    assert {row.verdict for row in rows} == {"ok"}
    named = {row.what for row in rows}
    assert {"golden lstm_carry, loop", "golden lstm_carry, unroll", "golden lstm_stream_t1, step"} <= named


def test_sample_on_the_fake_gpu() -> None:
    assert [(row.what, row.verdict) for row in check.sample(fake_session)] == [
        ("sample, loop", "ok"),
        ("sample, unroll", "ok"),
        ("sample, step by step", "ok"),
    ]


def test_sessions_on_the_fake_gpu() -> None:
    rows = list(sessions(fake_session))
    assert [row.verdict for row in rows[:3]] == ["ok"] * 3
    assert len(rows) == 4


@pytest.mark.parametrize("method", ["reset", "set_state"])
def test_a_session_that_ignores_its_state_is_found(method: str) -> None:
    def broken(graph: Graph) -> prototrt.Session:
        session = fake_session(graph)
        setattr(session, method, lambda *_, **__: None)
        return session

    assert "WRONG" in {row.verdict for row in sessions(broken)}


def test_a_row_is_told_before_the_next_is_tried() -> None:
    def rows() -> Iterator[tuple[str]]:
        yield ("first",)
        raise FakeFaultError

    lines = check.markdown(("a",), rows())
    assert [next(lines) for _ in range(3)] == ["| a |", "| --- |", "| first |"]


def test_what_fails_or_is_wrong_is_a_row() -> None:
    def fails() -> str:
        raise EngineError("no GPU", fix="buy one")

    def errs() -> str:
        return check.compared(np.zeros(2), np.ones(2))

    assert tried("a", fails) == Row("a", "FAILED", "no GPU   fix: buy one")
    assert tried("b", errs).verdict == "WRONG"
    assert tried("d", lambda: str(1 // 0)).verdict == "FAILED"
    assert tried("c", lambda: "fine") == Row("c", "ok", "fine")


def test_a_wrong_engine_is_found() -> None:
    class Wrong:
        def __init__(self, session: prototrt.Session) -> None:
            self.session = session

        def run(self, feeds: Any) -> dict[str, Any]:
            self.session.reset()  # forgets what it should carry
            return self.session.run(feeds)

    def wrong(graph: Graph) -> Any:
        return Wrong(fake_session(graph))

    found = {row.what: row.verdict for row in check.goldens(wrong)}
    assert found["golden lstm_carry, loop"] == "WRONG"
    assert found["golden lstm_t1, loop"] == "ok"


def test_costs_of_one_lstm() -> None:
    """By hand: 2 inputs, 2 hidden units, 3 steps, 5 streams; a step multiplies (8 x 4) with 5 columns."""
    size = Size(hidden=2, steps=3, streams=5)
    assert size.multiply_adds == 3 * 5 * 32
    assert size.weight_bytes == (8 * 4 + 8) * 4
    assert size.moved_bytes == 160 + (30 + 30 + 20 + 20) * 4
    assert size.floor(560, 960) == (1.0, 0.5)


def test_grid_and_ways() -> None:
    assert len(grid()) == 18
    assert [way for way, *_ in check.ways(Size(256, 1, 1))] == ["step, queued", "step, CUDA graph"]
    assert [way for way, *_ in check.ways(Size(256, 16, 1))] == [
        "loop",
        "unroll, queued",
        "unroll, CUDA graph",
    ]
    assert [way for way, *_ in check.ways(Size(256, 128, 1))] == ["loop"]


@pytest.mark.parametrize(("steps", "sequence"), [(1, "step"), (4, "loop"), (4, "unroll")])
def test_the_net_that_is_timed(steps: int, sequence: str, tmp_path: Path) -> None:
    graph = lstm_graph(Size(8, steps, 2), sequence, tmp_path)
    results = prototrt.Session(graph).run({"x": np.ones((steps, 2, 8)), "cont": np.ones((steps, 2))})
    assert results["h"].shape == (steps, 2, 8)
    assert results["h"].any()


def test_tables() -> None:
    assert list(check.markdown(("a", "b"), [("1", "x|y")])) == ["| a | b |", "| --- | --- |", "| 1 | x/y |"]
    row = check.timing_row(Size(256, 4, 1), "loop", 8e-6, ["-", "-"], 1e-6)
    assert row == ["256", "4", "1", "loop", "8.0 us", "2.0 us", "-", "-", "1.0 us"]
    assert len(row) == len(check.TIMING_COLUMNS)
    assert check.microseconds(None) == "-"


class Clock:
    """A device whose events say how often something was recorded, in thousands of a second."""

    def __init__(self) -> None:
        self.time = 0.0

    def create_stream(self) -> int:
        return 3

    def _call(self, name: str, *arguments: Any) -> Any:
        if name == "cudaEventCreate":
            return [0.0]
        if name == "cudaEventRecord":
            arguments[0][0] = self.time
        if name == "cudaEventElapsedTime":
            return arguments[1][0] - arguments[0][0]
        return None


def test_the_stopwatch_gives_the_median() -> None:
    clock: Any = Clock()
    watch, calls = Stopwatch(clock), []

    def work() -> None:
        calls.append(1)
        clock.time += 1000 if len(calls) == 12 else 2

    assert watch.seconds(work, repeats=5) == 0.002
    assert len(calls) == 15


def test_without_gpu_it_says_so() -> None:
    if (driver := find_driver()) is not None and driver.gpus:
        pytest.skip("there is a GPU")
    result = subprocess.run(
        [sys.executable, ROOT / "tests" / "gpu" / "check.py"],
        env={"PYTHONPATH": str(ROOT / ".dev")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (1, "there is no GPU here: nothing was checked\n")


def test_resident_arrays_are_described() -> None:
    from prototrt.tests.converter.runtime.fake_gpu import FakeDevice

    device: Any = FakeDevice()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    resident = Resident(device, array, 0)
    assert resident.__cuda_array_interface__["shape"] == (2, 3)
    np.testing.assert_array_equal(device.read(resident.address, (2, 3), "float32"), array)
