"""The adapter for cuda-python: against the real package as far as possible without a GPU, otherwise a stand-in."""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.backends.driver import find_driver
from prototrt.converter.running.runtime import cuda_python
from prototrt.converter.running.runtime.cuda_python import CudaPythonDevice
from prototrt.converter.running.runtime.device import CaptureError


def test_every_name_that_is_used_is_there() -> None:
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="needs cuda-python")
    source = Path(cuda_python.__file__).read_text()
    names = {name for name in re.findall(r"\bcuda[A-Z]\w+", source) if not name.startswith("cudaError")}
    enums = (runtime.cudaMemcpyKind, runtime.cudaMemoryType, runtime.cudaStreamCaptureMode)
    assert len(names) > 20
    assert [name for name in names if not any(hasattr(place, name) for place in (runtime, *enums))] == []


def test_without_a_driver_it_says_so() -> None:
    pytest.importorskip("cuda.bindings.runtime", reason="needs cuda-python")
    if find_driver() is not None:
        pytest.skip("there is a driver")
    with pytest.raises(EngineError) as caught:
        CudaPythonDevice()
    assert str(caught.value) == (
        "there is no NVIDIA driver\n  fix: install one: https://www.nvidia.com/drivers;"
        " on a machine without a GPU, run the net instead of the engine"
    )


class FakeRuntime(SimpleNamespace):
    """``cuda.bindings.runtime`` over the memory of this process; it notes what is called."""

    def __init__(self) -> None:
        super().__init__(calls=[], fails=set(), blocks={}, cudaStreamNonBlocking=1, cudaEventDisableTiming=2)
        self.cudaHostAllocDefault, self.cudaMemoryType = 0, SimpleNamespace(cudaMemoryTypeDevice=2)
        self.current, self.error = 0, "cudaErrorUnknown"
        self.pointers: dict[int, tuple[int, int]] = {}
        self.cudaMemcpyKind = SimpleNamespace(
            cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2, cudaMemcpyDeviceToDevice=3
        )
        self.cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cuda"):
            raise AttributeError(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name in ("cudaGetErrorName", "cudaGetErrorString"):
                return 0, self.error.encode() if name == "cudaGetErrorName" else name.encode()
            if name in self.fails:
                return 1, None
            return 0, getattr(self, f"do_{name}", lambda *_: 7)(*arguments)

        return call

    def do_cudaMalloc(self, size: int) -> int:  # noqa: N802  CUDA's name
        block = np.full(size, 0xFF, np.uint8)
        self.blocks[block.ctypes.data] = block
        return int(block.ctypes.data)

    def do_cudaHostAlloc(self, size: int, flags: int) -> int:  # noqa: N802
        return self.do_cudaMalloc(size)

    def do_cudaGetDevice(self) -> int:  # noqa: N802
        return int(self.current)

    def do_cudaSetDevice(self, ordinal: int) -> None:  # noqa: N802
        self.current = ordinal

    def do_cudaPointerGetAttributes(self, address: int) -> Any:  # noqa: N802
        kind, device = self.pointers[address]
        return SimpleNamespace(type=kind, device=device)

    def do_cudaMemcpy2DAsync(  # noqa: N802
        self, target: int, to: int, source: int, by: int, size: int, rows: int, kind: int, stream: int
    ) -> None:
        assert kind == 3
        for row in range(rows):
            ctypes.memmove(target + row * to, source + row * by, size)

    def do_cudaMemcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> None:  # noqa: N802
        ctypes.memmove(target, source, size)

    def do_cudaMemsetAsync(self, address: int, value: int, size: int, stream: int) -> None:  # noqa: N802
        ctypes.memset(address, value, size)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    fake = FakeRuntime()
    monkeypatch.setattr(cuda_python, "cuda_runtime", lambda: fake)
    return fake


@pytest.mark.parametrize("array", [np.ones((2, 3), np.float16), np.ones((), bool), np.empty((0, 3))], ids=str)
@pytest.mark.parametrize("is_writeable", [True, False])
def test_the_addresses_of_arrays(array: np.ndarray, is_writeable: bool, runtime: FakeRuntime) -> None:
    array.flags.writeable = is_writeable
    device, target = CudaPythonDevice(), np.zeros_like(array, order="C")
    device.upload(target.ctypes.data, array, 5)
    np.testing.assert_array_equal(target, array)
    assert runtime.calls[-1] == ("cudaMemcpyAsync", target.ctypes.data, array.ctypes.data, array.nbytes, 1, 5)


def test_cuda_python_moves_bytes(runtime: FakeRuntime) -> None:
    device = CudaPythonDevice(3)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    one, other = device.allocate(array.nbytes), device.allocate(array.nbytes)
    device.upload(one, array, 5)
    device.copy(other, one, array.nbytes, 5)
    device.zero(one, 8, 5)
    found = [np.empty_like(array) for _ in range(2)]
    device.download(found[0], one, 5)
    device.download(found[1], other, 5)
    np.testing.assert_array_equal(found[1], array)
    np.testing.assert_array_equal(found[0], [[0, 0, 2], [3, 4, 5]])
    kinds = [call[4] for call in runtime.calls if call[0] == "cudaMemcpyAsync"]
    assert kinds == [1, 3, 2, 2]


def test_the_gpu_of_the_thread_is_given_back(runtime: FakeRuntime) -> None:
    runtime.current = 1
    device = CudaPythonDevice(3)
    assert runtime.current == 1
    with device.current():
        assert runtime.current == 3
    assert runtime.current == 1
    with suppress(ZeroDivisionError), device.current():
        raise ZeroDivisionError
    assert runtime.current == 1
    runtime.calls.clear()
    runtime.current = 3
    with device.current():
        pass
    assert runtime.calls == [("cudaGetDevice",)]


def test_whose_memory_it_is(runtime: FakeRuntime) -> None:
    """That of the host (1), and what CUDA moves (3), is of every GPU."""
    runtime.pointers = {256: (2, 1), 512: (1, 0), 768: (3, 0)}
    assert [CudaPythonDevice().ordinal_of(address) for address in (256, 512, 768)] == [1, None, None]


def test_cuda_python_copies_rows_and_pins_memory(runtime: FakeRuntime) -> None:
    device = CudaPythonDevice()
    one, other = device.allocate(12), device.allocate(12)
    device.upload(one, np.arange(12, dtype=np.uint8), 5)
    device.copy_rows((other, 2), (one, 4), 2, 3, 5)
    pinned = device.allocate_pinned(6)
    device.download(pinned, other, 5)
    np.testing.assert_array_equal(pinned, [0, 1, 4, 5, 8, 9])
    device.free_pinned(pinned)
    assert runtime.calls[-1] == ("cudaFreeHost", pinned.ctypes.data)
    assert device.allocate_pinned(0).nbytes == 0


def test_an_interrupt_ends_the_capture(runtime: FakeRuntime) -> None:
    """The stream may be the caller's."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CudaPythonDevice().capture(5, interrupted)
    assert [call[0] for call in runtime.calls[-3:]] == [
        "cudaStreamEndCapture",
        "cudaGraphDestroy",
        "cudaGetLastError",
    ]


def test_cuda_python_waits_for_a_stream_on_the_gpu(runtime: FakeRuntime) -> None:
    device = CudaPythonDevice()
    device.wait(5, 9)
    assert runtime.calls[1:] == [
        ("cudaEventCreateWithFlags", 2),
        ("cudaEventRecord", 7, 9),
        ("cudaStreamWaitEvent", 5, 7, 0),
        ("cudaEventDestroy", 7),
    ]


def test_cuda_python_captures(runtime: FakeRuntime) -> None:
    device = CudaPythonDevice()
    graph = device.capture(5, lambda: device.zero(0, 0, 5))
    graph.launch(6)
    graph.close()
    assert [call[0] for call in runtime.calls[1:]] == [
        "cudaStreamBeginCapture",
        "cudaMemsetAsync",
        "cudaStreamEndCapture",
        "cudaGraphInstantiate",
        "cudaGraphDestroy",
        "cudaGraphLaunch",
        "cudaGraphExecDestroy",
    ]


@pytest.mark.parametrize("fails", ["cudaMemsetAsync", "cudaStreamEndCapture", "cudaGraphInstantiate"])
def test_cuda_python_ends_a_capture_that_fails(fails: str, runtime: FakeRuntime) -> None:
    device = CudaPythonDevice()
    runtime.fails.add(fails)
    with pytest.raises(CaptureError, match=fails):
        device.capture(5, lambda: device.zero(0, 0, 5))
    names = [call[0] for call in runtime.calls]
    assert names.count("cudaStreamEndCapture") == 1  # or the stream would stay in capture
    if fails != "cudaStreamEndCapture":
        assert names.count("cudaGraphDestroy") == 1
    if fails != "cudaGraphInstantiate":
        assert "cudaGetLastError" in names  # or the next call would report this failure


def test_the_default_stream_is_not_captured(runtime: FakeRuntime) -> None:
    with pytest.raises(CaptureError, match=r"^work on CUDA's default stream cannot be captured$"):
        CudaPythonDevice().capture(0, lambda: None)


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        ("cudaErrorUnknown", "run prototrt.doctor(), which lists what is missing"),
        (
            "cudaErrorMemoryAllocation",
            "close other sessions and programs that use this GPU, or convert the model with smaller max_shapes",
        ),
        (
            "cudaErrorIllegalAddress",
            "start the program again: after this error the GPU does nothing more for this process",
        ),
        (
            "cudaErrorInvalidResourceHandle",
            "give a stream that still exists, of the GPU that the engine is on",
        ),
    ],
)
def test_errors_of_cuda(error: str, fix: str, runtime: FakeRuntime) -> None:
    device = CudaPythonDevice()
    runtime.fails.add("cudaMalloc")
    runtime.error = error
    with pytest.raises(EngineError) as caught:
        device.allocate(8)
    assert str(caught.value) == f"cudaMalloc failed: {error}\n  because cudaGetErrorString\n  fix: {fix}"


def test_every_error_of_cuda_that_is_named_is_there() -> None:
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="needs cuda-python")
    source = Path(cuda_python.__file__).read_text()
    names = set(re.findall(r"\bcudaError[A-Z]\w+", source))
    assert len(names) > 10
    assert names <= {error.name for error in runtime.cudaError_t}
