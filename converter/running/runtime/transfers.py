"""The routes of a call: from a caller's array to where TensorRT reads it, and back from where TensorRT writes."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.files.signatures.arrays import cast
from prototrt.converter.files.signatures.signature import refuse_lost
from prototrt.converter.running.runtime.device import ALIGNMENT, Device, Rows
from prototrt.converter.running.runtime.memory import Buffer, StagingBuffer
from prototrt.converter.running.runtime.operands import DeviceArray
from prototrt.converter.running.runtime.state import PairState
from prototrt.surgery.ir import Array, Value


@dataclass(frozen=True, slots=True)
class StepLayout:
    """How a binding lies in memory: ``count`` steps of ``size`` bytes each, one every ``stride`` bytes."""

    count: int
    size: int
    stride: int

    @classmethod
    def with_alignment(cls, count: int, size: int) -> StepLayout:
        """The layout in our own memory: each step begins at an address that TensorRT accepts."""
        return cls(count, size, -(-size // ALIGNMENT) * ALIGNMENT if count > 1 else size)

    @property
    def nbytes(self) -> int:
        return self.stride * (self.count - 1) + self.size

    def is_in_place(self, array: DeviceArray) -> bool:
        """Whether TensorRT can use the array of a caller, in which one step follows the other."""
        places = array.address | (self.size if self.count > 1 else 0)
        return array.address != 0 and places % ALIGNMENT == 0


@dataclass(frozen=True, slots=True)
class WorkQueue:
    """Where work is queued: a stream of a GPU."""

    device: Device
    stream: int

    def copy(self, target: Rows, source: Rows, layout: StepLayout) -> None:
        """Copy each step from one place on the GPU to another."""
        if layout.count == 1:
            self.device.copy(target[0], source[0], layout.size, self.stream)
        else:
            self.device.copy_rows(target, source, layout.size, layout.count, self.stream)


class InputRoute(Protocol):
    """How an input reaches the engine. ``stride`` is in bytes, from step to step."""

    @property
    def stride(self) -> int: ...

    def queue(self) -> int:
        """Queue what must come before the run; return the address that the first step reads."""


class OutputRoute(Protocol):
    """How an output leaves the engine. ``stride`` is in bytes, from step to step."""

    @property
    def stride(self) -> int: ...

    def address(self) -> int:
        """The address that the first step writes."""

    def queue(self) -> None:
        """Queue what must come after the run: nothing, unless a route says otherwise."""
        return

    def finish(self) -> None:
        """Do the rest once the stream is synchronized: nothing, unless a route says otherwise."""
        return


@dataclass(frozen=True, slots=True)
class CallerMemory:
    """Memory of the caller that TensorRT itself can use."""

    array: DeviceArray
    layout: StepLayout

    @property
    def stride(self) -> int:
        return self.layout.size

    def address(self) -> int:
        return self.array.address


@dataclass(frozen=True, slots=True)
class InputInPlace(CallerMemory):
    def queue(self) -> int:
        return self.address()


@dataclass(frozen=True, slots=True)
class OutputInPlace(CallerMemory, OutputRoute):
    pass


@dataclass(frozen=True, slots=True)
class BufferRoute:
    """What TensorRT reads or writes stands in our own memory on the GPU."""

    work: WorkQueue
    layout: StepLayout
    buffer: Buffer

    @property
    def stride(self) -> int:
        return self.layout.stride

    def address(self) -> int:
        return self.buffer.reserve(self.layout.nbytes, self.work.stream)


@dataclass(frozen=True, slots=True)
class CopyRoute(BufferRoute):
    """Memory of the caller that TensorRT cannot use where it is: a copy on the GPU is read."""

    array: DeviceArray

    def queue(self) -> int:
        address = self.address()
        self.work.copy((address, self.stride), (self.array.address, self.layout.size), self.layout)
        return address


@dataclass(frozen=True, slots=True)
class CopyBackRoute(BufferRoute, OutputRoute):
    """Memory of the caller that TensorRT cannot write to: it gets a copy from the GPU."""

    array: DeviceArray

    def queue(self) -> None:
        target = self.array.address, self.layout.size
        self.work.copy(target, (self.buffer.address, self.stride), self.layout)


class StagedArray:
    """An array in pinned memory, laid out as its steps are on the GPU."""

    def __init__(
        self, staging: StagingBuffer, layout: StepLayout, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._staging, self._layout, self._size = staging, layout, layout.nbytes
        self._shape, self._dtype = shape, dtype
        self._pinned: Array | None = None
        self._array: Array | None = None

    def reserve(self, stream: int) -> tuple[Array, Array]:
        """The pinned bytes, and the array that they hold. Both are made anew where the staging has grown."""
        pinned = self._staging.reserve(self._size, stream)
        if self._array is None or pinned is not self._pinned:
            self._pinned, self._array = pinned, _steps_in(pinned, self._layout, self._shape, self._dtype)
        return pinned, self._array


@dataclass(frozen=True, slots=True)
class UploadRoute(BufferRoute):
    """An array of the host, by way of pinned memory: from there the GPU copies by itself."""

    value: Value
    array: Array
    staged: StagedArray

    def queue(self) -> int:
        stream = self.work.stream
        pinned, staged = self.staged.reserve(stream)
        staged[...] = cast(self.value, self.array)
        address = self.buffer.reserve(pinned.nbytes, stream)
        self.work.device.upload(address, pinned, stream)
        return address


@dataclass(frozen=True, slots=True)
class DownloadRoute(BufferRoute, OutputRoute):
    """An array of the host, by way of pinned memory."""

    array: Array
    staged: StagedArray

    def queue(self) -> None:
        pinned, _ = self.staged.reserve(self.work.stream)
        self.work.device.download(pinned, self.buffer.address, self.work.stream)

    def finish(self) -> None:
        _, staged = self.staged.reserve(self.work.stream)
        self.array[...] = staged


@dataclass(frozen=True, slots=True)
class CarriedState:
    """State of the call before. It may have another shape when a prepared call is run again."""

    state: PairState
    shape: tuple[int, ...]
    size: int
    stream: int
    stride: ClassVar[int] = 0

    def queue(self) -> int:
        if self.state.shape is not None and self.state.shape != self.shape:
            refuse_lost(self.state.value, self.state.shape, self.shape)
        return self.state.prepare(self.size, self.stream)


@dataclass(frozen=True, slots=True)
class NextState(OutputRoute):
    """State for the next call."""

    state: PairState
    size: int
    stream: int
    stride: ClassVar[int] = 0

    def address(self) -> int:
        return self.state.back.reserve(self.size, self.stream)


def _steps_in(pinned: Array, layout: StepLayout, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The array that pinned bytes hold, without the gaps between steps."""
    if layout.count == 1:
        return pinned.view(dtype).reshape(shape)
    steps = np.lib.stride_tricks.as_strided(pinned, (layout.count, layout.size), (layout.stride, 1))
    return steps.view(dtype).reshape(shape)
