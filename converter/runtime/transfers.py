"""How an input comes to where TensorRT reads it, and an output from where TensorRT has written it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from prototrt.converter.runtime.device import ALIGNMENT, Device
from prototrt.converter.runtime.memory import Buffer, Staging
from prototrt.converter.runtime.operands import DeviceArray
from prototrt.converter.runtime.state import PairState
from prototrt.converter.sessions.arrays import converted
from prototrt.converter.sessions.signature import refuse_lost
from prototrt.surgery.ir import Array, Value


@dataclass(frozen=True, slots=True)
class Rows:
    """What a binding holds for each step of a call: so many bytes, and where the next one begins."""

    count: int
    size: int
    stride: int

    @classmethod
    def aligned(cls, count: int, size: int) -> Rows:
        """In our own memory, where each step begins at an address that TensorRT accepts."""
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

    def copy(self, target: int, target_stride: int, source: int, source_stride: int, rows: Rows) -> None:
        """Each row, from one place on the GPU to another."""
        if rows.count == 1:
            self.device.copy(target, source, rows.size, self.stream)
        else:
            self.device.copy_rows(
                target, target_stride, source, source_stride, rows.size, rows.count, self.stream
            )


class Source(Protocol):
    """An input of a call. ``stride`` is in bytes, from step to step."""

    @property
    def stride(self) -> int: ...

    def queue(self) -> int:
        """Queue what must come before the run. The address that the first step reads."""


class Target(Protocol):
    """An output of a call. ``stride`` is in bytes, from step to step."""

    @property
    def stride(self) -> int: ...

    def address(self) -> int:
        """The address that the first step writes."""

    def queue(self) -> None:
        """Queue what must come after the run: nothing, unless a target says otherwise."""
        return

    def finish(self) -> None:
        """Do the rest once the stream was synchronized: nothing, unless a target says otherwise."""
        return


@dataclass(frozen=True, slots=True)
class ReadInPlace:
    """Memory of the caller that TensorRT itself can read."""

    array: DeviceArray
    rows: Rows

    @property
    def stride(self) -> int:
        return self.rows.size

    def queue(self) -> int:
        return self.array.address


@dataclass(frozen=True, slots=True)
class WrittenInPlace(Target):
    """Memory of the caller that TensorRT itself can write."""

    array: DeviceArray
    rows: Rows

    @property
    def stride(self) -> int:
        return self.rows.size

    def address(self) -> int:
        return self.array.address


@dataclass(frozen=True, slots=True)
class Copied:
    """Memory of the caller that TensorRT cannot use where it is: a copy on the GPU is read."""

    work: WorkQueue
    array: DeviceArray
    rows: Rows
    buffer: Buffer

    @property
    def stride(self) -> int:
        return self.rows.stride

    def queue(self) -> int:
        address = self.buffer.reserve(self.rows.nbytes, self.work.stream)
        self.work.copy(address, self.rows.stride, self.array.address, self.rows.size, self.rows)
        return address


@dataclass(frozen=True, slots=True)
class CopiedBack(Target):
    """Memory of the caller that TensorRT cannot write to: it gets a copy from the GPU."""

    work: WorkQueue
    array: DeviceArray
    rows: Rows
    buffer: Buffer

    @property
    def stride(self) -> int:
        return self.rows.stride

    def address(self) -> int:
        return self.buffer.reserve(self.rows.nbytes, self.work.stream)

    def queue(self) -> None:
        self.work.copy(self.array.address, self.rows.size, self.buffer.address, self.rows.stride, self.rows)


@dataclass(frozen=True, slots=True)
class Uploaded:
    """An array of the host, by way of pinned memory: from there the GPU copies by itself."""

    work: WorkQueue
    value: Value
    array: Array
    rows: Rows
    buffer: Buffer
    staging: Staging

    @property
    def stride(self) -> int:
        return self.rows.stride

    def queue(self) -> int:
        address = self.buffer.reserve(self.rows.nbytes, self.work.stream)
        pinned = self.staging.reserve(self.rows.nbytes, self.work.stream)
        np.copyto(
            _steps_in(pinned, self.rows, self.array.shape, self.value), converted(self.value, self.array)
        )
        self.work.device.upload(address, pinned, self.work.stream)
        return address


@dataclass(frozen=True, slots=True)
class Downloaded(Target):
    """An array of the host, by way of pinned memory."""

    work: WorkQueue
    value: Value
    array: Array
    rows: Rows
    buffer: Buffer
    staging: Staging

    @property
    def stride(self) -> int:
        return self.rows.stride

    def address(self) -> int:
        return self.buffer.reserve(self.rows.nbytes, self.work.stream)

    def queue(self) -> None:
        self.work.device.download(self._pinned(), self.buffer.address, self.work.stream)

    def finish(self) -> None:
        np.copyto(self.array, _steps_in(self._pinned(), self.rows, self.array.shape, self.value))

    def _pinned(self) -> Array:
        return self.staging.reserve(self.rows.nbytes, self.work.stream)


@dataclass(frozen=True, slots=True)
class CarriedState:
    """State of the call before. It may have another shape when a prepared call is run again."""

    state: PairState
    shape: tuple[int, ...]
    stream: int

    @property
    def stride(self) -> int:
        return 0

    def queue(self) -> int:
        if self.state.shape is not None and self.state.shape != self.shape:
            refuse_lost(self.state.value, self.state.shape, self.shape)
        return self.state.prepare(self.shape, self.stream)


@dataclass(frozen=True, slots=True)
class NextState(Target):
    """State for the next call."""

    state: PairState
    size: int
    stream: int

    @property
    def stride(self) -> int:
        return 0

    def address(self) -> int:
        return self.state.back.reserve(self.size, self.stream)


def _steps_in(pinned: Array, rows: Rows, shape: tuple[int, ...], value: Value) -> Array:
    """The array that pinned bytes hold, without the gaps between steps."""
    dtype: np.dtype[Any] = value.dtype.numpy
    if rows.count == 1:
        return pinned.view(dtype).reshape(shape)
    steps = np.lib.stride_tricks.as_strided(pinned, (rows.count, rows.size), (rows.stride, 1))
    return steps.view(dtype).reshape(shape)
