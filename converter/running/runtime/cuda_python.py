"""The GPU by way of cuda-python, NVIDIA's own bindings."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.caffe_proto.common.wording import Worded
from prototrt.converter.backends.driver import INSTALL_OR_USE_CPU, NO_DRIVER, find_driver
from prototrt.converter.running.runtime.device import (
    FREE_MEMORY,
    LEGACY_DEFAULT_STREAMS,
    SEE_DOCTOR,
    START_AGAIN,
    CaptureError,
    MissingPackageError,
    Rows,
    handle_of,
)
from prototrt.surgery.ir import Array


def cuda_runtime() -> Any:
    """The module ``cuda.bindings.runtime``. Raises ``EngineError`` where it is not installed."""
    try:
        return importlib.import_module("cuda.bindings.runtime")
    except (ImportError, OSError) as error:
        raise MissingPackageError(
            f"the package cuda-python cannot be imported: {error}", fix="pip install cuda-python"
        ) from error


_LASTING = (
    "cudaErrorIllegalAddress cudaErrorMisalignedAddress cudaErrorIllegalInstruction"
    " cudaErrorInvalidAddressSpace cudaErrorInvalidPc cudaErrorHardwareStackError"
    " cudaErrorLaunchFailure cudaErrorLaunchTimeout cudaErrorAssert cudaErrorECCUncorrectable"
)
"""Errors that stay: each later call of this process returns the same one."""
_FIXES: Mapping[str, str | Worded] = {
    "cudaErrorMemoryAllocation": FREE_MEMORY,
    "cudaErrorInvalidResourceHandle": "give a stream that still exists, of the GPU that the engine is on",
    **dict.fromkeys(_LASTING.split(), START_AGAIN),
}
"""Source: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html, ``cudaError``."""


class CudaPythonDevice:
    """The GPU of this number, in the context that CUDA's runtime, torch and TensorRT share."""

    name = "cuda-python"
    can_capture = True

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal = ordinal
        self.cuda = cuda_runtime()
        try:
            with self.current():
                pass
        except (EngineError, RuntimeError) as error:
            # Where no driver is installed, CUDA reports "insufficient driver", and cuda-python 12 raises RuntimeError.
            if find_driver() is None:
                raise EngineError(NO_DRIVER, fix=INSTALL_OR_USE_CPU) from error
            raise

    @contextmanager
    def current(self) -> Iterator[None]:
        before = self._call("cudaGetDevice")
        if before == self.ordinal:
            yield
            return
        self._call("cudaSetDevice", self.ordinal)
        try:
            yield
        finally:
            self._call("cudaSetDevice", before)

    def ordinal_of(self, address: int) -> int | None:
        attributes = self._call("cudaPointerGetAttributes", address)
        # Memory that CUDA moves between the GPUs, or that is the host's, can be used on each of them.
        is_of_one_gpu = attributes.type == self.cuda.cudaMemoryType.cudaMemoryTypeDevice
        return int(attributes.device) if is_of_one_gpu else None

    def allocate(self, size: int) -> int:
        return int(self._call("cudaMalloc", max(size, 1)))

    def free(self, address: int) -> None:
        self._call("cudaFree", address)

    def allocate_pinned(self, size: int) -> Array:
        address = int(self._call("cudaHostAlloc", max(size, 1), self.cuda.cudaHostAllocDefault))
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def free_pinned(self, array: Array) -> None:
        self._call("cudaFreeHost", array.ctypes.data)

    def create_stream(self) -> int:
        return int(self._call("cudaStreamCreateWithFlags", self.cuda.cudaStreamNonBlocking))

    def adopt_stream(self, stream: Any) -> int:
        return handle_of(stream)

    def release_stream(self, stream: int) -> None:
        pass

    def destroy_stream(self, stream: int) -> None:
        self._call("cudaStreamDestroy", stream)

    def synchronize(self, stream: int) -> None:
        self._call("cudaStreamSynchronize", stream)

    def wait(self, stream: int, other: int) -> None:
        event = self._call("cudaEventCreateWithFlags", self.cuda.cudaEventDisableTiming)
        try:
            self._call("cudaEventRecord", event, other)
            self._call("cudaStreamWaitEvent", stream, event, 0)
        finally:
            self._call("cudaEventDestroy", event)  # CUDA keeps it until both are done with it

    def zero(self, address: int, size: int, stream: int) -> None:
        self._call("cudaMemsetAsync", address, 0, size, stream)

    def upload(self, address: int, array: Array, stream: int) -> None:
        self._copy(address, _address_of(array), array.nbytes, "cudaMemcpyHostToDevice", stream)

    def download(self, array: Array, address: int, stream: int) -> None:
        self._copy(_address_of(array), address, array.nbytes, "cudaMemcpyDeviceToHost", stream)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(target, source, size, "cudaMemcpyDeviceToDevice", stream)

    def copy_rows(self, target: Rows, source: Rows, size: int, count: int, stream: int) -> None:
        kind = self.cuda.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        self._call("cudaMemcpy2DAsync", *target, *source, size, count, kind, stream)

    def capture(self, stream: int, enqueue: Callable[[], None]) -> CudaGraph:
        if stream in LEGACY_DEFAULT_STREAMS:
            raise CaptureError("work on CUDA's default stream cannot be captured")
        # Other threads may allocate meanwhile; this one does nothing but queue.
        mode = self.cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._call("cudaStreamBeginCapture", stream, mode)
        try:
            enqueue()
        except EngineError as error:
            self._abandon(stream)
            raise CaptureError(str(error)) from error
        except BaseException:
            self._abandon(stream)  # an interrupt must not leave the caller's stream in capture
            raise
        return self._instantiate(stream)

    def _instantiate(self, stream: int) -> CudaGraph:
        try:
            graph = self._call("cudaStreamEndCapture", stream)
        except EngineError as error:
            self.cuda.cudaGetLastError()  # so that later calls do not report the failed capture
            raise CaptureError(str(error)) from error
        try:
            return CudaGraph(self._call, self._call("cudaGraphInstantiate", graph, 0))
        except EngineError as error:
            raise CaptureError(str(error)) from error
        finally:
            self._call("cudaGraphDestroy", graph)

    def _abandon(self, stream: int) -> None:
        status, graph = self.cuda.cudaStreamEndCapture(stream)
        if int(status) == 0 and int(graph):
            self._call("cudaGraphDestroy", graph)
        self.cuda.cudaGetLastError()

    def _copy(self, target: int, source: int, size: int, kind: str, stream: int) -> None:
        self._call("cudaMemcpyAsync", target, source, size, getattr(self.cuda.cudaMemcpyKind, kind), stream)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of CUDA's runtime; what it gives beside the status."""
        status, *results = getattr(self.cuda, name)(*arguments)
        if int(status) != 0:
            error = self._text("cudaGetErrorName", status)
            raise EngineError(
                f"{name} failed: {error}",
                because=self._text("cudaGetErrorString", status),
                fix=_FIXES.get(error, SEE_DOCTOR),
            )
        return results[0] if results else None

    def _text(self, name: str, status: Any) -> str:
        return str(getattr(self.cuda, name)(status)[1].decode())


def _address_of(array: Array) -> int:
    """The address of an array. ``array.ctypes`` is a new object each time and takes longer than queueing a copy."""
    if array.nbytes and array.flags.writeable:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    return int(array.ctypes.data)


class CudaGraph:
    """A CUDA graph that can be launched."""

    def __init__(self, call: Callable[..., Any], executable: Any) -> None:
        self._call, self._executable = call, executable

    def launch(self, stream: int) -> None:
        self._call("cudaGraphLaunch", self._executable, stream)

    def close(self) -> None:
        self._call("cudaGraphExecDestroy", self._executable)
