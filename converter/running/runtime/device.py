"""What running an engine needs of a GPU: a small protocol, which adapters fulfil."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.surgery.ir import Array

DeviceName: TypeAlias = Literal["cuda-python", "pycuda"]
"""The packages that run engines on a GPU."""

ALIGNMENT = 256
"""Bytes. TensorRT needs every address to be a multiple of this."""

Rows: TypeAlias = tuple[int, int]
"""The address of the first of several rows, and the bytes from the beginning of one to that of the next."""
DEFAULT_STREAM = 0
LEGACY_DEFAULT_STREAMS = (DEFAULT_STREAM, 1)
"""Two numbers of the stream that all others wait for. Work on it cannot be captured."""


class CapturedGraph(Protocol):
    """Work that was recorded once, and can be queued as often as one likes."""

    def launch(self, stream: int) -> None: ...

    def close(self) -> None: ...


class CaptureError(Exception):
    """The work cannot be captured; the stream can be used as before."""


class Device(Protocol):
    """One GPU. Addresses and streams are plain numbers; work is queued on streams.

    Arrays that are uploaded or downloaded must stay as they are until the stream was synchronized.
    """

    name: str
    can_capture: bool

    @property
    def ordinal(self) -> int | None:
        """The number that CUDA gives the GPU; None where the adapter does not know."""

    def current(self) -> AbstractContextManager[None]:
        """Within the block this is the GPU of the calling thread; after it, the previous GPU is again."""

    def ordinal_of(self, address: int) -> int | None:
        """The GPU whose memory an address is in; None where that is not known."""

    def allocate(self, size: int) -> int:
        """The address of at least ``size`` bytes, a multiple of ``ALIGNMENT``."""

    def free(self, address: int) -> None: ...

    def allocate_pinned(self, size: int) -> Array:
        """Bytes in the host's memory that stay in place, so that the GPU copies from and to them by itself."""

    def free_pinned(self, array: Array) -> None: ...

    def create_stream(self) -> int: ...

    def adopt_stream(self, stream: Any) -> int:
        """The handle of a stream that a caller made, with whatever library, until it is released."""

    def release_stream(self, stream: int) -> None:
        """A session no longer uses the stream that it adopted."""

    def destroy_stream(self, stream: int) -> None: ...

    def synchronize(self, stream: int) -> None:
        """Wait until all that is queued on the stream is done."""

    def wait(self, stream: int, other: int) -> None:
        """Work queued on ``stream`` from now on waits for the work that ``other`` holds now."""

    def zero(self, address: int, size: int, stream: int) -> None: ...

    def upload(self, address: int, array: Array, stream: int) -> None: ...

    def download(self, array: Array, address: int, stream: int) -> None: ...

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """From one place on the device to another."""

    def copy_rows(self, target: Rows, source: Rows, size: int, count: int, stream: int) -> None:
        """``count`` rows of ``size`` bytes, from one place on the device to another."""

    def capture(self, stream: int, enqueue: Callable[[], None]) -> CapturedGraph:
        """Record what ``enqueue`` queues, without running it. Raises ``CaptureError``."""


SEE_DOCTOR = Worded("run {}, which lists what is missing", Command("doctor"))
FREE_MEMORY = Worded(
    "close other sessions and programs that use this GPU, or convert the model with smaller {}",
    Option("max_shapes"),
)
"""What helps where the memory of the GPU is full."""
START_AGAIN = "start the program again: after this error the GPU does nothing more for this process"


class MissingPackageError(EngineError):
    """A package that an adapter needs is not installed."""


def handle_of(stream: Any) -> int:
    """The number of a CUDA stream: a number, or an object of cuda-python, torch, cupy or pycuda."""
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):  # torch, cupy, pycuda
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    try:
        return int(stream)
    except (TypeError, ValueError) as error:
        raise EngineError(
            f"{stream!r} is not a CUDA stream",
            fix="give a stream of torch, cupy, pycuda or cuda-python, or the number of one",
        ) from error
