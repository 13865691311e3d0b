"""The GPU by way of PyCUDA, in the context that the caller has made current."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.caffe_proto.common.wording import Worded
from prototrt.converter.backends.driver import INSTALL_OR_USE_CPU, NO_DRIVER, find_driver
from prototrt.converter.running.runtime.device import (
    DEFAULT_STREAM,
    FREE_MEMORY,
    SEE_DOCTOR,
    START_AGAIN,
    CapturedGraph,
    CaptureError,
    MissingPackageError,
    Rows,
    handle_of,
)
from prototrt.surgery.ir import Array

_FIXES: Mapping[str, str | Worded] = {"MemoryError": FREE_MEMORY, "LaunchError": START_AGAIN}
"""By the classes of PyCUDA's errors. Source: https://documen.tician.de/pycuda/driver.html, error reporting."""


class PyCudaDevice:
    """PyCUDA's current context, which owns all memory here. It has no CUDA graphs."""

    name = "pycuda"
    can_capture = False
    ordinal = None  # the context is the caller's, on whatever GPU

    def __init__(self) -> None:
        self.cuda = _driver()
        self._memory: dict[int, Any] = {}
        # PyCUDA takes streams as objects only; None is the default stream.
        self._streams: dict[int, Any] = {DEFAULT_STREAM: None}
        self._uses: Counter[int] = Counter({DEFAULT_STREAM: 1})
        self._context = self._current()

    @contextmanager
    def current(self) -> Iterator[None]:
        if self._current() != self._context:
            raise EngineError(
                "another context of PyCUDA is current than when the engine was loaded",
                because="memory of one context cannot be used in another",
                fix="make the first one current again: push() it",
            )
        yield

    def ordinal_of(self, address: int) -> int | None:
        return None

    def _current(self) -> Any:
        current = self._guard("finding the current context", self.cuda.Context.get_current)
        if current is None:
            raise EngineError(
                "PyCUDA has no current context in this thread",
                fix="make one first, as `import pycuda.autoinit` does, or use device='cuda-python'",
            )
        return current

    def allocate(self, size: int) -> int:
        memory = self._guard("allocating memory", self.cuda.mem_alloc, max(size, 1))
        self._memory[int(memory)] = memory
        return int(memory)

    def free(self, address: int) -> None:
        self._guard("freeing memory", self._memory.pop(address).free)

    def allocate_pinned(self, size: int) -> Array:
        pinned: Array = self._guard(
            "allocating the host's memory", self.cuda.pagelocked_empty, max(size, 1), np.uint8
        )
        return pinned[:size]

    def free_pinned(self, array: Array) -> None:
        pass  # PyCUDA frees what nobody holds

    def create_stream(self) -> int:
        return self.adopt_stream(self._guard("making a stream", self.cuda.Stream))

    def adopt_stream(self, stream: Any) -> int:
        handle = DEFAULT_STREAM if stream is None else handle_of(stream)
        if isinstance(stream, self.cuda.Stream):
            self._streams[handle] = stream
        if handle not in self._streams:
            raise EngineError(
                f"{stream!r} is not a stream of PyCUDA",
                because="PyCUDA supports only its own streams",
                fix="give a pycuda.driver.Stream, or use device='cuda-python'",
            )
        self._uses[handle] += 1
        return handle

    def release_stream(self, stream: int) -> None:
        self._uses[stream] -= 1
        if not self._uses[stream]:
            del self._streams[stream]  # PyCUDA destroys what nobody holds

    def destroy_stream(self, stream: int) -> None:
        self.release_stream(stream)

    def synchronize(self, stream: int) -> None:
        handle = self._streams[stream]
        wait = self.cuda.Context.synchronize if handle is None else handle.synchronize
        self._guard("waiting for the GPU", wait)

    def wait(self, stream: int, other: int) -> None:
        if stream not in self._streams or other not in self._streams or self._streams[stream] is None:
            # A stream of another library: waiting for the whole GPU is slow, and right.
            self._guard("waiting for the GPU", self.cuda.Context.synchronize)
            return
        event = self._guard("making an event", self.cuda.Event)
        self._guard("recording an event", event.record, self._streams[other])
        self._guard("waiting for an event", self._streams[stream].wait_for_event, event)

    def zero(self, address: int, size: int, stream: int) -> None:
        self._guard("zeroing", self.cuda.memset_d8_async, address, 0, size, self._streams[stream])

    def upload(self, address: int, array: Array, stream: int) -> None:
        self._guard("copying", self.cuda.memcpy_htod_async, address, array, self._streams[stream])

    def download(self, array: Array, address: int, stream: int) -> None:
        self._guard("copying", self.cuda.memcpy_dtoh_async, array, address, self._streams[stream])

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self._guard("copying", self.cuda.memcpy_dtod_async, target, source, size, self._streams[stream])

    def copy_rows(self, target: Rows, source: Rows, size: int, count: int, stream: int) -> None:
        for row in range(count):
            self.copy(target[0] + row * target[1], source[0] + row * source[1], size, stream)

    def capture(self, stream: int, enqueue: Callable[[], None]) -> CapturedGraph:
        raise CaptureError("PyCUDA has no CUDA graphs")

    def _guard(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self.cuda.Error as error:
            raise _refusal(what, error) from error


def _driver() -> Any:
    try:
        return importlib.import_module("pycuda.driver")
    except (ImportError, OSError) as error:
        is_installed = not isinstance(error, ModuleNotFoundError)
        if is_installed and find_driver() is None:  # which it is linked with
            raise EngineError(NO_DRIVER, because=f"PyCUDA says: {error}", fix=INSTALL_OR_USE_CPU) from error
        raise MissingPackageError(
            f"the package pycuda cannot be imported: {error}",
            fix="pip install pycuda, which needs the CUDA toolkit; cuda-python does not",
        ) from error


def _refusal(what: str, error: Exception) -> EngineError:
    return EngineError(f"PyCUDA failed at {what}: {error}", fix=_FIXES.get(type(error).__name__, SEE_DOCTOR))
