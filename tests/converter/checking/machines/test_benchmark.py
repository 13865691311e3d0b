"""Timing calls: what is timed with a GPU and without one, and how it is reported."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from prototrt.caffe_proto.common.errors import BuildError, EngineError
from prototrt.cli import main
from prototrt.converter.checking.machines import benchmark
from prototrt.converter.checking.machines.benchmark import Resident, bench
from prototrt.converter.front.commandline.report import _duration
from prototrt.converter.running.runtime import devices, sources
from prototrt.converter.running.runtime.memory import Memory
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import STREAM, WEIGHTS
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import contexts_of, gpu_of
from prototrt.tests.converter.running.runtime.support import session_of
from prototrt.tests.converter.running.runtime.test_plan_file import fake_backend
from prototrt.tests.digit_strips import digits
from prototrt.tests.dynamic_lstm import dynamic_graph


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str | None = None) -> None:
        raise EngineError("there is no NVIDIA driver", fix="install one")

    monkeypatch.setattr(devices, "find_device", missing)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Every session finds this GPU, on which every plan is that of the digits stream."""
    place = fake_backend(monkeypatch, digits("deploy_stream.prototxt"))
    monkeypatch.setattr(devices, "find_device", lambda name=None: place)
    monkeypatch.setattr(sources, "find_device", lambda name=None: place)
    return place


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments], prog_name="prototrt")


@pytest.mark.parametrize("graph", [dynamic_graph(), digits("deploy_stream.prototxt")], ids=["loop", "step"])
def test_an_engine_is_timed_with_and_without_graphs(graph: Graph) -> None:
    session = session_of(graph)
    found = bench(session, 7, profile=True)
    assert [timing.way for timing in found.timings] == [
        "engine, queued",
        "engine, CUDA graph",
        "engine, NumPy arrays",
    ]
    assert {timing.calls for timing in found.timings} == {7}
    assert all(0 < timing.median <= timing.p99 for timing in found.timings)
    assert [timing.queued is not None for timing in found.timings] == [True, True, False]
    assert [layer.name for layer in found.layers] == [node.name for node in graph.nodes]
    assert {layer.seconds for layer in found.layers} == {0.00025}
    assert found.notes == ()
    queued, replayed, *_ = contexts_of(session.engine)[1:]
    assert (len(queued.runs), len(replayed.runs)) == (17, 4)  # ten calls warm up; two graphs are captured
    session.close()
    assert queued.device.memory == {}


def test_arrays_that_stay_on_the_gpu_are_described() -> None:
    device = FakeDevice()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    resident = Resident(Memory(device), array, 0)
    assert resident.__cuda_array_interface__["shape"] == (2, 3)
    np.testing.assert_array_equal(device.read(resident.address, (2, 3), "float32"), array)


def test_an_engine_that_cannot_be_captured() -> None:
    session = session_of(digits("deploy_stream.prototxt"))
    gpu_of(session.engine).can_capture = False
    found = bench(session, 3)
    assert [timing.way for timing in found.timings] == ["engine, queued", "engine, NumPy arrays"]
    assert found.notes == ("no CUDA graph was timed: TensorRT cannot capture this engine",)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_cpu_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bench(dynamic_graph(), 3)
    assert found.notes[0] == "no engine was timed: there is no NVIDIA driver"
    assert found.timings[0].way == "reference"
    assert {timing.calls for timing in found.timings} == {3}
    monkeypatch.setattr(benchmark, "SECONDS_AT_MOST", 0.0)
    assert {timing.calls for timing in bench(dynamic_graph(), 3).timings} == {1}


def test_a_gpu_that_no_tensorrt_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ways are timed, on the GPU too where their packages can use it."""
    monkeypatch.setattr(devices, "find_device", lambda name=None: FakeDevice())
    asked = []

    def session(graph: Graph, on: str, device: object) -> Any:
        if on == "engine":
            raise EngineError("tensorrt_rtx cannot load the plan")
        if on == "torch":
            raise BuildError("PyTorch is not here")
        asked.append((on, device))
        return nullcontext(SimpleNamespace(run=lambda feeds: {}))

    monkeypatch.setattr(benchmark, "Session", session)
    found = bench(dynamic_graph(), 3)
    assert asked == [("reference", None), ("network", None), ("onnx", None), ("onnx", "cuda")]
    assert [timing.way for timing in found.timings] == ["reference", "network", "onnx", "onnx, cuda"]
    assert found.notes == (
        "no engine was timed: tensorrt_rtx cannot load the plan",
        "torch, cuda was not timed: PyTorch is not here",
    )


@pytest.mark.usefixtures("no_gpu")
def test_the_command_without_a_gpu() -> None:
    result = run(STREAM, WEIGHTS, "--calls", "2")
    assert result.exit_code == 0, result.output
    assert "warning: no engine was timed: there is no NVIDIA driver\n" in result.stderr
    assert ["reference", "2"] in [line.split()[:2] for line in result.stdout.splitlines()]
    facts = json.loads(run(STREAM, WEIGHTS, "--calls", "2", "--json").stdout)
    assert facts["timings"][0].keys() == {"way", "calls", "median", "p99", "queued"}
    assert facts["timings"][0]["queued"] is None


@pytest.mark.trt
def test_the_command_builds_and_times_an_engine(gpu: FakeDevice) -> None:
    result = run(STREAM, WEIGHTS, "--calls", "2", "--layer-times")
    assert result.exit_code == 0, result.output
    ways = [line.strip().split("  ")[0] for line in result.stdout.splitlines() if "engine" in line]
    assert ways == ["engine, queued", "engine, CUDA graph", "engine, NumPy arrays"]
    assert "250 us" in result.stdout
    assert gpu.memory == {}


def test_the_command_times_a_plan(gpu: FakeDevice, tmp_path: Path) -> None:
    plan = tmp_path / "stream.plan"
    plan.write_bytes(b"vtrt")
    cache = tmp_path / "kernels"
    result = run(str(plan), "--trust", "--calls", "2", "--runtime-cache", str(cache), "--json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["timings"]) == 3
    assert cache.exists()
    refused = run(str(plan))
    assert refused.exit_code == 6
    assert "has no manifest" in refused.output


@pytest.mark.parametrize("option", [["--trust"], ["--runtime-cache", "kernels"]])
def test_options_for_plans(option: list[str]) -> None:
    result = run(STREAM, WEIGHTS, *option)
    assert result.exit_code == 2
    assert result.output.endswith(f"\nError: {option[0]} is for plans, but {STREAM} is not a plan\n")
    result = run("a.plan", "--sequence", "loop")
    assert result.output.endswith(
        "\nError: --sequence is for nets, but a.plan is an engine\n  fix: leave it out\n"
    )


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "-"),
        (2.5, "2.50 s"),
        (1234.5, "1234 s"),
        (0.0123, "12.3 ms"),
        (0.0011, "1.10 ms"),
        (0.001, "1.00 ms"),
        (0.00045678, "457 us"),
        (3e-7, "0.30 us"),
    ],
)
def test_durations(seconds: float | None, told: str) -> None:
    assert _duration(seconds) == told
