"""The routes of a call: from a caller's array to where TensorRT reads it, and back from where TensorRT writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.files.signatures.arrays import cast
from prototrt.converter.files.signatures.signature import refuse_lost
from prototrt.converter.running.runtime.device import ALIGNMENT, Device, Rows
from prototrt.converter.running.runtime.memory import Buffer, StagingBuffer
from prototrt.converter.running.runtime.operands import DeviceArray, Operand
from prototrt.converter.running.runtime.state import PairState
from prototrt.surgery.ir import Array, Value


@dataclass(frozen=True, slots=True)
class StepLayout:
    """How a binding lies in memory: ``count`` steps of ``size`` bytes each, one every ``stride`` bytes."""

    count: int
    size: int
    stride: int

    @classmethod
    @lru_cache
    def with_alignment(cls, count: int, size: int) -> StepLayout:
        """The layout in our own memory: each step begins at an address that TensorRT accepts."""
        return cls(count, size, -(-size // ALIGNMENT) * ALIGNMENT if count > 1 else size)

    @property
    def nbytes(self) -> int:
        return self.stride * (self.count - 1) + self.size

    def is_in_place(self, array: DeviceArray) -> bool:
        """Whether TensorRT can use the array of a caller, in which one step follows the other."""
        return self.stride == self.size and array.address != 0 and array.address % ALIGNMENT == 0


class InputRoute(NamedTuple):
    """How an input reaches the engine. ``stride`` is in bytes, from step to step.

    ``queue`` queues what must come before the run, and returns the address that the first step reads. It is given the
    caller's array; None for the state of the call before.
    """

    stride: int
    queue: Callable[[Any], int]


class OutputRoute(NamedTuple):
    """How an output leaves the engine. ``stride`` is in bytes, from step to step.

    ``address`` returns the address that the first step writes. ``queue`` queues what must come after the run, and
    ``finish`` does the rest once the stream is synchronized. They are given the caller's array; None for the state of
    the next call, which has only an address.
    """

    stride: int
    address: Callable[[Any], int]
    queue: Callable[[Any], object] = lambda _: None
    finish: Callable[[Any], object] = lambda _: None


class StagedArray:
    """An array in pinned memory, laid out as its steps are on the GPU."""

    def __init__(
        self, staging: StagingBuffer, layout: StepLayout, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.layout, self._staging = layout, staging
        self._shape, self._dtype = shape, dtype
        self._pinned: Array | None = None
        self._array: Array | None = None

    def reserve(self, stream: int) -> tuple[Array, Array]:
        """The pinned bytes, and the array that they hold. Both are made anew where the staging has grown."""
        pinned = self._staging.reserve(self.layout.nbytes, stream)
        if self._array is None or pinned is not self._pinned:
            self._pinned, self._array = pinned, _steps_in(pinned, self.layout, self._shape, self._dtype)
        return pinned, self._array


@dataclass(frozen=True, slots=True)
class WorkQueue:
    """A stream of a GPU, and the routes on it. What is not in place stands in a ``buffer`` of ours on the GPU."""

    device: Device
    stream: int

    def copy(self, target: Rows, source: Rows, layout: StepLayout) -> None:
        """Copy each step from one place on the GPU to another."""
        if layout.count == 1:
            self.device.copy(target[0], source[0], layout.size, self.stream)
        else:
            self.device.copy_rows(target, source, layout.size, layout.count, self.stream)

    def reserve(self, buffer: Buffer, layout: StepLayout) -> int:
        return buffer.reserve(layout.nbytes, self.stream)

    def input_route(self, value: Value, staged: StagedArray, buffer: Buffer) -> InputRoute:
        """For arrays on the GPU that TensorRT can use, where they are; for others, by way of a copy in the buffer.

        Arrays of the host also take pinned memory: from there the GPU copies by itself.
        """
        layout = staged.layout

        def queue(array: Operand) -> int:
            if isinstance(array, DeviceArray):
                if layout.is_in_place(array):
                    return array.address
                address = self.reserve(buffer, layout)
                self.copy((address, layout.stride), (array.address, layout.size), layout)
                return address
            pinned, steps = staged.reserve(self.stream)
            steps[...] = cast(value, array)
            address = self.reserve(buffer, layout)
            self.device.upload(address, pinned, self.stream)
            return address

        return InputRoute(layout.stride, queue)

    def output_route(self, staged: StagedArray, buffer: Buffer) -> OutputRoute:
        """The way back, for the same arrays."""
        layout = staged.layout

        def address(array: Operand) -> int:
            if isinstance(array, DeviceArray) and layout.is_in_place(array):
                return array.address
            return self.reserve(buffer, layout)

        def queue(array: Operand) -> None:
            if not isinstance(array, DeviceArray):
                self.device.download(staged.reserve(self.stream)[0], buffer.address, self.stream)
            elif not layout.is_in_place(array):
                self.copy((array.address, layout.size), (buffer.address, layout.stride), layout)

        def finish(array: Operand) -> None:
            if not isinstance(array, DeviceArray):
                array[...] = staged.reserve(self.stream)[1]

        return OutputRoute(layout.stride, address, queue, finish)

    def carried_state(self, state: PairState, shape: tuple[int, ...], size: int) -> InputRoute:
        """For the state of the call before. It may have another shape when a prepared call is run again."""

        def queue(_: None) -> int:
            if state.shape is not None and state.shape != shape:
                refuse_lost(state.value, state.shape, shape)
            return state.prepare(size, self.stream)

        return InputRoute(0, queue)

    def next_state(self, state: PairState, size: int) -> OutputRoute:
        """For the state of the next call."""
        return OutputRoute(0, lambda _: state.back.reserve(size, self.stream))


def _steps_in(pinned: Array, layout: StepLayout, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The array that pinned bytes hold, without the gaps between steps."""
    if layout.count == 1:
        return pinned.view(dtype).reshape(shape)
    steps = np.lib.stride_tricks.as_strided(pinned, (layout.count, layout.size), (layout.stride, 1))
    return steps.view(dtype).reshape(shape)
