"""The adapters: against the real cuda-python as far as a machine without GPU goes, else against stand-ins."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.errors import EngineError, ShapeError
from prototrt.converter.runtime import cuda_python, pycuda
from prototrt.converter.runtime.cuda_python import CudaPythonDevice
from prototrt.converter.runtime.device import CaptureError, find_device, handle_of
from prototrt.converter.runtime.dlpack import device_tensor, tensor_in
from prototrt.converter.runtime.driver import find_driver
from prototrt.converter.runtime.operands import operand_of
from prototrt.converter.runtime.pycuda import PyCudaDevice
from prototrt.surgery.ir import Array


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            None,
            "running an engine needs the package cuda-python or pycuda, and neither is installed\n"
            "  fix: pip install cuda-python",
        ),
        (
            "cuda-python",
            "the package cuda-python cannot be imported: import of cuda.bindings.runtime halted;"
            " None in sys.modules\n  fix: pip install cuda-python",
        ),
        (
            "pycuda",
            "the package pycuda cannot be imported: import of pycuda.driver halted; None in sys.modules\n"
            "  fix: pip install pycuda, which needs the CUDA toolkit; cuda-python does not",
        ),
    ],
)
def test_packages_that_are_missing(name: str | None, message: str) -> None:
    with pytest.raises(EngineError) as caught:
        find_device(name)
    assert str(caught.value) == message


def test_a_device_that_is_none() -> None:
    with pytest.raises(ValueError, match="device is 'opencl', expected one of cuda-python, pycuda"):
        find_device("opencl")


# ---------------------------------------------------------------- cuda-python


def test_every_name_that_is_used_is_there() -> None:
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="needs cuda-python")
    source = Path(cuda_python.__file__).read_text()
    names = set(re.findall(r"\bcuda[A-Z]\w+", source)) - {"cudaError"}
    kinds = {name for name in names if name.startswith(("cudaMemcpyHost", "cudaMemcpyDevice"))}
    mode = "cudaStreamCaptureModeThreadLocal"
    assert len(names) > 20
    assert [name for name in names - kinds - {mode} if not hasattr(runtime, name)] == []
    assert all(hasattr(runtime.cudaMemcpyKind, name) for name in kinds)
    assert hasattr(runtime.cudaStreamCaptureMode, mode)


def test_without_a_driver_it_says_so() -> None:
    pytest.importorskip("cuda.bindings.runtime", reason="needs cuda-python")
    if find_driver() is not None:
        pytest.skip("there is a driver")
    with pytest.raises(EngineError) as caught:
        CudaPythonDevice()
    assert str(caught.value) == (
        "there is no NVIDIA driver\n  fix: install one: https://www.nvidia.com/drivers"
    )


class FakeRuntime(SimpleNamespace):
    """``cuda.bindings.runtime`` over the memory of this process; it notes what is called."""

    def __init__(self) -> None:
        super().__init__(calls=[], fails=set(), blocks={}, cudaStreamNonBlocking=1, cudaEventDisableTiming=2)
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
                return 0, name.encode()
            if name in self.fails:
                return 1, None
            return 0, getattr(self, f"do_{name}", lambda *_: 7)(*arguments)

        return call

    def do_cudaMalloc(self, size: int) -> int:  # noqa: N802  CUDA's name
        block = np.full(size, 0xFF, np.uint8)
        self.blocks[block.ctypes.data] = block
        return int(block.ctypes.data)

    def do_cudaMemcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> None:  # noqa: N802
        ctypes.memmove(target, source, size)

    def do_cudaMemsetAsync(self, address: int, value: int, size: int, stream: int) -> None:  # noqa: N802
        ctypes.memset(address, value, size)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    fake = FakeRuntime()
    monkeypatch.setattr(cuda_python, "cuda_runtime", lambda: fake)
    return fake


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
    assert runtime.calls[0] == ("cudaSetDevice", 3)


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


def test_errors_of_cuda(runtime: FakeRuntime) -> None:
    device = CudaPythonDevice()
    runtime.fails.add("cudaMalloc")
    with pytest.raises(EngineError) as caught:
        device.allocate(8)
    assert str(caught.value) == (
        "cudaMalloc failed: cudaGetErrorName\n  because cudaGetErrorString\n"
        "  fix: run prototrt doctor, which tells what is missing"
    )


# ---------------------------------------------------------------- PyCUDA


class FakeDriver(ModuleType):
    """``pycuda.driver`` over the memory of this process."""

    class Error(Exception):
        pass

    class Stream:
        def __init__(self) -> None:
            self.handle = id(self)
            self.did: list[str] = []

        def synchronize(self) -> None:
            self.did.append("synchronize")

        def wait_for_event(self, event: Any) -> None:
            self.did.append("wait")

    class Event:
        def record(self, stream: Any) -> None:
            stream.did.append("record")

    class Context:
        current: object = object()
        synchronized = 0

        @classmethod
        def get_current(cls) -> object:
            return cls.current

        @classmethod
        def synchronize(cls) -> None:
            cls.synchronized += 1

    class Memory(int):
        block: Array

        def free(self) -> None:
            self.block.fill(0xFF)

    def mem_alloc(self, size: int) -> Memory:
        block = np.full(size, 0xFF, np.uint8)
        memory = self.Memory(block.ctypes.data)
        memory.block = block
        return memory

    def memset_d8_async(self, address: int, value: int, size: int, stream: Any) -> None:
        ctypes.memset(address, value, size)

    def memcpy_htod_async(self, address: int, array: Array, stream: Any) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def memcpy_dtoh_async(self, array: Array, address: int, stream: Any) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def memcpy_dtod_async(self, target: int, source: int, size: int, stream: Any) -> None:
        raise self.Error("no")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver("pycuda.driver")
    monkeypatch.setattr(pycuda, "_driver", lambda: fake)
    monkeypatch.setattr(FakeDriver.Context, "synchronized", 0)
    return fake


def test_pycuda_moves_bytes(driver: FakeDriver) -> None:
    device = PyCudaDevice()
    stream = device.create_stream()
    array = np.arange(6, dtype=np.float32)
    address = device.allocate(array.nbytes)
    device.upload(address, array, stream)
    device.zero(address, 8, stream)
    found = np.empty_like(array)
    device.download(found, address, stream)
    np.testing.assert_array_equal(found, [0, 0, 2, 3, 4, 5])
    with pytest.raises(EngineError) as caught:
        device.copy(address, address, 4, stream)
    assert str(caught.value) == (
        "PyCUDA failed at copying: no\n  fix: run prototrt doctor, which tells what is missing"
    )
    device.free(address)
    with pytest.raises(CaptureError):
        device.capture(stream, lambda: None)


def test_pycuda_uses_streams_of_its_own(driver: FakeDriver) -> None:
    device, stream = PyCudaDevice(), FakeDriver.Stream()
    handle = device.adopt_stream(stream)
    assert handle == stream.handle
    device.synchronize(handle)
    assert device.adopt_stream(0) == 0
    device.synchronize(0)
    assert (stream.did, FakeDriver.Context.synchronized) == (["synchronize"], 1)
    other = device.adopt_stream(FakeDriver.Stream())
    device.wait(other, handle)
    assert stream.did == ["synchronize", "record"]
    device.wait(other, 12345)  # not one of PyCUDA's
    assert FakeDriver.Context.synchronized == 2
    with pytest.raises(
        EngineError, match=r"^12345 is no stream of PyCUDA\n  because PyCUDA can use no other\n"
    ):
        device.adopt_stream(12345)


def test_pycuda_needs_a_context(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDriver.Context, "current", None)
    with pytest.raises(EngineError) as caught:
        PyCudaDevice()
    assert str(caught.value) == (
        "PyCUDA has no current context in this thread\n"
        "  fix: make one first, as `import pycuda.autoinit` does, or use device='cuda-python'"
    )


def test_pycuda_stays_in_its_context(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    device = PyCudaDevice()
    device.activate()
    monkeypatch.setattr(FakeDriver.Context, "current", object())
    with pytest.raises(EngineError) as caught:
        device.activate()
    assert str(caught.value) == (
        "another context of PyCUDA is current than when the engine was loaded\n"
        "  because its memory is of no use there\n"
        "  fix: make the first one current again: push() it"
    )


# ---------------------------------------------------------------- streams and DLPack


@pytest.mark.parametrize(
    "stream",
    [
        7,
        SimpleNamespace(cuda_stream=7),
        SimpleNamespace(ptr=7),
        SimpleNamespace(handle=7),
        SimpleNamespace(__cuda_stream__=lambda: (0, 7)),
    ],
)
def test_streams_of_other_libraries(stream: Any) -> None:
    assert handle_of(stream) == 7


def test_what_is_no_stream() -> None:
    with pytest.raises(EngineError) as caught:
        handle_of("fast")
    assert str(caught.value) == (
        "'fast' is no CUDA stream\n  fix: give a stream of torch, cupy, pycuda or cuda-python, or the number of one"
    )


class OnGpu:
    """An array which says by DLPack that it is on a GPU."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int) -> Any:
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        tensor_in(capsule).device.kind = 2
        return capsule


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool", "uint8"])
def test_dlpack_is_read_where_it_is(dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    given = OnGpu(array)
    operand: Any = operand_of(given, "x", 0)
    assert (operand.address, operand.shape, operand.dtype) == (array.ctypes.data, (3, 4), array.dtype)
    assert operand.nbytes == array.nbytes
    assert given.streams == [1]
    operand_of(given, "x", 42)
    assert given.streams == [1, 42]


def test_dlpack_that_begins_further_on() -> None:
    class FurtherOn(OnGpu):
        def __dlpack__(self, stream: int) -> Any:
            capsule = super().__dlpack__(stream)
            tensor_in(capsule).byte_offset = 512
            return capsule

    array = np.zeros(3, np.float32)
    operand: Any = operand_of(FurtherOn(array), "x", 0)
    assert operand.address == array.ctypes.data + 512


def test_dlpack_with_gaps() -> None:
    with pytest.raises(ShapeError, match=r'^the array for "x" has gaps, or another order of its axes\n'):
        operand_of(OnGpu(np.zeros((4, 6), np.float32)[:, ::2]), "x", 0)


def test_dlpack_of_elements_without_name() -> None:
    with pytest.raises(ShapeError) as caught:
        operand_of(OnGpu(np.zeros(3, np.complex64)), "x", 0)
    assert str(caught.value) == (
        'the array for "x" has elements that NumPy does not know\n'
        "  because DLPack calls them type 5 of 64 bits in 1 lanes"
    )


def test_arrays_of_the_host_are_no_device_tensors() -> None:
    assert device_tensor(np.zeros(3), "x", 0) is None
    assert isinstance(operand_of([1.0, 2.0], "x", 0), np.ndarray)
