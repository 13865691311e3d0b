"""What is tried on a GPU, on the fake one: it computes with the reference evaluator, and every check must hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Precision
from prototrt.converter.backends.driver import Driver, Gpu
from prototrt.converter.backends.onnx import evaluator
from prototrt.converter.checking.selftest import engines, goldens
from prototrt.converter.checking.selftest.nets import SessionOf, lstm_graph
from prototrt.converter.checking.selftest.rows import Check, Row, row_of
from prototrt.converter.checking.selftest.sections import SECTIONS
from prototrt.converter.running.runtime import sources
from prototrt.surgery.ir import Graph
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.ops import Tile
from prototrt.tests.converter.checking.selftest import engine_checks, libraries, sessions
from prototrt.tests.converter.checking.selftest.fake_libraries import fake_cupy, fake_gpuarray, fake_torch
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine
from prototrt.tests.converter.running.runtime.support import session_of
from prototrt.tests.converter.running.runtime.test_plan_file import fake_backend
from prototrt.tests.golden_cases import GOLDENS

TORCH = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
Making = Callable[[SessionOf], Iterator[Check]]


@pytest.fixture(scope="module")
def unpacked_goldens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("goldens")
    goldens.unpack(folder)
    return folder


def built_session(graph: Graph, **options: Any) -> prototrt.Session:
    """On the fake GPU, but a plan has been built."""
    prototrt.build(graph, backend="rtx")
    return session_of(graph, **options)


def verdicts(checks: Iterator[Check]) -> dict[str, str]:
    rows = [row_of(check) for check in checks]
    assert len({row.what for row in rows}) == len(rows)
    return {row.what: row.verdict for row in rows}


def test_a_gpu_that_tensorrt_refuses_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_driver", lambda: Driver("13.0", (Gpu("H200", "9.0", 1 << 37),)))
    monkeypatch.setattr(engines, "find_backend", lambda name: SimpleNamespace(version="1.7.1"))
    row = row_of(Check("an LSTM", engines.build_check("rtx", "fp32")))
    reason = "its plans run on compute capability 8.0, 8.6, 8.9, 12.0 and newer, this GPU has 9.0"
    assert row.cells == ("an LSTM", "not tried", reason)


@pytest.mark.slow
def test_goldens(unpacked_goldens: Path) -> None:
    rows = verdicts(goldens.goldens(unpacked_goldens, session_of))
    assert set(rows.values()) == {"ok"}
    assert {"lstm_carry, loop, fp32", "lstm_carry, fp16", "lstm_stream_t1, step, fp32", "absval, fp32"} < set(
        rows
    )


@pytest.mark.trt
@pytest.mark.parametrize("section", [engine_checks.profiles, engine_checks.replays, sessions.sessions])
def test_engines_and_sessions(section: Making) -> None:
    found = verdicts(section(built_session))
    assert len(found) >= 2
    assert set(found.values()) == {"ok"}


def test_a_wrong_engine_is_found(unpacked_goldens: Path) -> None:
    class Forgetful(prototrt.Session):
        def run(self, feeds: Any, outputs: Any = None) -> dict[str, Any]:
            self.reset()
            return super().run(feeds, outputs)

    def forgetful(graph: Graph, **options: Any) -> prototrt.Session:
        return Forgetful(session_of(graph).engine, **options)

    checks = goldens.goldens(unpacked_goldens, forgetful)
    found = verdicts(check for check in checks if check.what.startswith(("lstm_carry", "lstm_static")))
    assert found["lstm_carry, loop, fp32"] == "WRONG"
    assert found["lstm_carry, fp16"] == "WRONG"
    assert found["lstm_static, loop, fp32"] == "ok"
    assert set(verdicts(engine_checks.profiles(forgetful)).values()) == {"WRONG"}


@pytest.mark.parametrize("method", ["reset", "set_state"])
def test_a_session_that_ignores_its_state_is_found(method: str) -> None:
    def broken(graph: Graph, **options: Any) -> prototrt.Session:
        session = session_of(graph, **options)
        setattr(session, method, lambda *_, **__: None)
        return session

    assert "WRONG" in verdicts(sessions.sessions(broken)).values()


def test_graphs_that_are_never_captured_are_found() -> None:
    def queued(graph: Graph, **options: Any) -> prototrt.Session:
        return session_of(graph, **{**options, "graphs": False})

    (first, *_) = [row_of(check) for check in engine_checks.replays(queued)]
    assert (first.verdict, first.details) == ("WRONG", ("0 graphs were captured, expected 2",))


@pytest.mark.parametrize("name", ["torch", "cupy", "pycuda", "pycuda.autoinit"])
def test_libraries_that_are_not_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch", "cupy", "pycuda", "pycuda.autoinit", "pycuda.gpuarray"):
        monkeypatch.setitem(sys.modules, module, None)
    rows = [
        row_of(check) for section in (libraries.libraries, libraries.pycuda) for check in section(session_of)
    ]
    assert [row.what.removeprefix("session, ") for row in rows] == [
        "arrays of PyTorch",
        "a stream of PyTorch, never waited for",
        "arrays of CuPy",
        "the adapter for PyCUDA",
        "arrays of PyCUDA",
    ]
    assert {row.verdict for row in rows} == {"not tried"}
    assert rows[0].details == ("there is no PyTorch that sees the GPU",)
    assert rows[3].details == (
        "pycuda.autoinit cannot be imported: import of pycuda.autoinit halted; None in sys.modules",
    )


def test_libraries_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    monkeypatch.setitem(sys.modules, "torch", fake_torch(device))
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(device))
    monkeypatch.setitem(sys.modules, "pycuda.gpuarray", fake_gpuarray(device))
    monkeypatch.setitem(sys.modules, "pycuda.autoinit", ModuleType("pycuda.autoinit"))

    def session(graph: Graph, **options: Any) -> prototrt.Session:
        assert options.pop("device", "pycuda") == "pycuda"
        return prototrt.Session(fake_engine(graph, device), **options)

    for section in (libraries.libraries, libraries.pycuda):
        rows = [row_of(check) for check in section(session)]
        assert {row.verdict for row in rows} == {"ok"}, rows


def test_a_stream_that_is_not_heeded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session queues on its own stream, and so reads data that is not there yet."""
    device = FakeDevice()
    monkeypatch.setitem(sys.modules, "torch", fake_torch(device))

    def session(graph: Graph, **options: Any) -> prototrt.Session:
        return prototrt.Session(fake_engine(graph, device))

    found = verdicts(libraries.libraries(session))
    assert found["session, arrays of PyTorch"] == "ok"
    assert found["session, a stream of PyTorch, never waited for"] == "WRONG"


@pytest.fixture
def found_device(monkeypatch: pytest.MonkeyPatch) -> Callable[[Graph], FakeDevice]:
    """Every session finds a fake GPU, on which every plan is this graph."""

    def found(graph: Graph) -> FakeDevice:
        device = fake_backend(monkeypatch, graph)
        monkeypatch.setattr(sources, "find_device", lambda name: device)
        return device

    return found


@pytest.mark.trt
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_verification(precision: Precision, found_device: Callable[[Graph], FakeDevice]) -> None:
    net = GOLDENS / "caffe" / "lstm_carry"
    model = prototrt.load(net / "model.prototxt", net / "model.caffemodel")
    found_device(prototrt.rewrite(model, precision=precision))
    row = row_of(Check("verify", engine_checks.verified(precision)))
    assert row.verdict == "ok", row
    assert row.details[0].startswith("PASS: 2 ways agree ")


@pytest.mark.trt
def test_a_verification_that_fails(found_device: Callable[[Graph], FakeDevice]) -> None:
    net = GOLDENS / "caffe" / "lstm_carry" / "model.prototxt"
    found_device(prototrt.rewrite(prototrt.load(net, random_weights=1)))
    row = row_of(Check("verify", engine_checks.verified("fp32")))
    assert row.verdict == "WRONG"


@pytest.mark.trt
@pytest.mark.parametrize("precision", goldens.PRECISIONS)
def test_backends(precision: Precision, found_device: Callable[[Graph], FakeDevice]) -> None:
    found_device(lstm_graph(engines.SIZE, "step", precision))
    assert row_of(Check("rtx", engines.build_check("rtx", precision))).verdict == "ok"


def test_backends_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    rows = [row_of(check) for check in (*engines.backends(), *engine_checks.plugins(session_of))]
    assert [row.verdict for row in rows] == ["not tried"] * 4 * len(goldens.PRECISIONS)
    assert rows[0] == Row(
        "TensorRT for RTX runs an LSTM, fp32",
        "not tried",
        ("backend rtx needs the package tensorrt_rtx, which is not installed",),
    )


NVIDIA = "NvTensorRTRTXExecutionProvider"


@pytest.fixture
def rtx_plugin(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in for onnxruntime with the plugin for TensorRT for RTX: it computes on the CPU."""
    runtime: Any = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install '.[onnx]'")
    fake = SimpleNamespace()

    class Options(runtime.SessionOptions):  # type: ignore[misc]  # onnxruntime carries no types
        def add_provider_for_devices(self, devices: Any, options: Any) -> None:
            fake.sessions.append(([device.ep_name for device in devices], options))

    fake.__dict__.update(
        SessionOptions=Options,
        InferenceSession=runtime.InferenceSession,
        register_execution_provider_library=lambda name, library: fake.libraries.append((name, library)),
        get_ep_devices=lambda: [SimpleNamespace(ep_name=name) for name in fake.devices],
        devices=["CPUExecutionProvider", NVIDIA],
        libraries=[],
        sessions=[],
    )
    plugin = ModuleType(evaluator.RTX_PLUGIN)
    plugin.__spec__ = ModuleSpec(evaluator.RTX_PLUGIN, None)
    plugin.__dict__.update(get_ep_name=lambda: NVIDIA, get_library_path=lambda: "plugin.so")
    monkeypatch.setitem(sys.modules, evaluator.RTX_PLUGIN, plugin)
    monkeypatch.setattr(evaluator, "import_package", lambda name: fake)
    return fake


def plugin_row(folder: Path) -> Row:
    """The last row of a section without goldens."""
    (*_, check) = SECTIONS["onnxruntime"].checks(folder)
    return row_of(check)


@pytest.fixture
def no_goldens(tmp_path: Path) -> Path:
    (tmp_path / "index.json").write_text("[]")
    return tmp_path


def test_the_plugin_for_tensorrt_for_rtx(rtx_plugin: SimpleNamespace, no_goldens: Path) -> None:
    row = plugin_row(no_goldens)
    assert (row.what, row.verdict) == (
        "an LSTM of 8 steps, fp16, by the plugin for TensorRT for RTX",
        "ok",
    )
    assert rtx_plugin.sessions == [([NVIDIA], {})]
    assert rtx_plugin.libraries[0] == (NVIDIA, "plugin.so")


def test_the_plugin_where_it_finds_no_gpu(rtx_plugin: SimpleNamespace, no_goldens: Path) -> None:
    rtx_plugin.devices.remove(NVIDIA)
    row = plugin_row(no_goldens)
    assert (row.verdict, row.details) == ("not tried", ("it names no GPU that it supports",))


def test_a_session_without_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install '.[onnx]'")
    monkeypatch.setitem(sys.modules, evaluator.RTX_PLUGIN, None)
    with pytest.raises(prototrt.ConversionError) as caught:
        prototrt.Session(lstm_graph(engines.SIZE, "step"), on="onnx", device="rtx")
    assert str(caught.value) == (
        "onnxruntime cannot compute with TensorRT for RTX here\n"
        "  because import of onnxruntime_ep_nv_tensorrt_rtx halted; None in sys.modules\n"
        "  fix: pip install 'onnxruntime>=1.24' onnxruntime-ep-nv-tensorrt-rtx, on a machine with NVIDIA's driver and a"
        " GPU of compute capability 8.6, 8.9, or 12.0 and newer"
    )


@pytest.mark.parametrize("precision", goldens.PRECISIONS)
def test_there_are_tiles_to_be_plugins(precision: Precision) -> None:
    """In float16, a Tile after a product is also in float16; the Tile of cont never is."""
    tile = engine_checks.tile_graph(precision)
    lstm = lstm_graph(engines.SIZE, "step", precision, tile="keep")
    (node,) = [node for node in tile.nodes if isinstance(node.op, Tile)]
    assert node.outputs[0].dtype.value == TORCH[precision]
    (delta,) = [node for node in lstm.nodes if isinstance(node.op, Tile)]
    assert delta.outputs[0].dtype.value == "float32"
    assert precision_of(lstm) == precision
    x = np.random.default_rng(1).random((1, 4, 64), np.float32)
    assert prototrt.Session(tile).run({"x": x})["h"].shape == (1, 20, 8)
