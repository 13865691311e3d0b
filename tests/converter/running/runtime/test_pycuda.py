"""The adapter for PyCUDA, against a stand-in."""

from __future__ import annotations

import ctypes
import weakref
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.running.runtime import pycuda
from prototrt.converter.running.runtime.device import CaptureError
from prototrt.converter.running.runtime.pycuda import PyCudaDevice
from prototrt.surgery.ir import Array


class FakeDriver(ModuleType):
    """``pycuda.driver`` over the memory of this process."""

    class Error(Exception):
        pass

    class MemoryError(Error):  # noqa: A001  PyCUDA's name
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

    def pagelocked_empty(self, size: int, dtype: Any) -> Array:
        return np.full(size, 0xFF, dtype)

    def memset_d8_async(self, address: int, value: int, size: int, stream: Any) -> None:
        ctypes.memset(address, value, size)

    def memcpy_htod_async(self, address: int, array: Array, stream: Any) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def memcpy_dtoh_async(self, array: Array, address: int, stream: Any) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def memcpy_dtod_async(self, target: int, source: int, size: int, stream: Any) -> None:
        if target == source:
            raise self.Error("no")
        ctypes.memmove(target, source, size)


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
        "PyCUDA failed at copying: no\n  fix: run prototrt.doctor(), which lists what is missing"
    )
    device.free(address)
    with pytest.raises(CaptureError):
        device.capture(stream, lambda: None)


def test_memory_that_is_full(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def mem_alloc(size: int) -> None:
        raise FakeDriver.MemoryError("cuMemAlloc failed: out of memory")

    device = PyCudaDevice()
    monkeypatch.setattr(driver, "mem_alloc", mem_alloc, raising=False)
    with pytest.raises(EngineError) as caught:
        device.allocate(8)
    assert str(caught.value) == (
        "PyCUDA failed at allocating memory: cuMemAlloc failed: out of memory\n"
        "  fix: close other sessions and programs that use this GPU, or convert the model with smaller max_shapes"
    )


def test_pycuda_copies_rows_and_pins_memory(driver: FakeDriver) -> None:
    device = PyCudaDevice()
    one, other = device.allocate(12), device.allocate(12)
    device.upload(one, np.arange(12, dtype=np.uint8), 0)
    device.copy_rows((other, 2), (one, 4), 2, 3, 0)
    pinned = device.allocate_pinned(6)
    device.download(pinned, other, 0)
    np.testing.assert_array_equal(pinned, [0, 1, 4, 5, 8, 9])
    device.free_pinned(pinned)
    assert device.allocate_pinned(0).nbytes == 0
    assert (device.ordinal, device.ordinal_of(one)) == (None, None)


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
        EngineError,
        match=r"^12345 is not a stream of PyCUDA\n  because PyCUDA supports only its own streams\n",
    ):
        device.adopt_stream(12345)


def test_pycuda_forgets_streams_that_no_session_uses(driver: FakeDriver) -> None:
    device, stream = PyCudaDevice(), FakeDriver.Stream()
    gone = weakref.ref(stream)
    for _ in range(2):
        handle = device.adopt_stream(stream)
    own = device.create_stream()
    assert device.adopt_stream(own) == own  # by its number
    for each in (own, handle):
        device.release_stream(each)
        device.synchronize(each)
    del stream
    assert gone() is not None
    device.release_stream(handle)
    device.destroy_stream(own)
    assert gone() is None
    for each in (own, handle):
        with pytest.raises(EngineError, match="is not a stream of PyCUDA"):
            device.adopt_stream(each)
    device.release_stream(device.adopt_stream(None))
    device.synchronize(0)


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
    with device.current():
        pass
    monkeypatch.setattr(FakeDriver.Context, "current", object())
    with pytest.raises(EngineError) as caught, device.current():
        pass
    assert str(caught.value) == (
        "another context of PyCUDA is current than when the engine was loaded\n"
        "  because memory of one context cannot be used in another\n"
        "  fix: make the first one current again: push() it"
    )
