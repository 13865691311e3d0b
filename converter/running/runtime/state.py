"""Recurrent state on a GPU: two buffers a pair, one to read and one to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import prod

import numpy as np

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.files.signatures.signature import largest, refuse_streams
from prototrt.converter.running.runtime.memory import Buffer, Memory
from prototrt.surgery.ir import Array, Recurrence, Value


class PairState:
    """The state of one recurrent pair.

    A call reads ``front`` and writes ``back``; after a call that went well they change places.
    TensorRT does not promise that an input and an output may share an address, and a call that
    fails half way leaves the front as it was.
    """

    def __init__(self, memory: Memory, pair: Recurrence, size: int, stream_axis: int) -> None:
        self.value: Value = pair.input
        self.stream_axis = stream_axis
        self.output = pair.output.name
        self.shape: tuple[int, ...] | None = None
        """What the front holds; None is zero, of whatever shape the next call needs."""
        self.front, self.back = Buffer(memory, size), Buffer(memory, size)
        self._saved = Buffer(memory)
        self._device = memory.device

    def prepare(self, size: int, stream: int) -> int:
        """The address from which a call reads this many bytes of state."""
        address = self.front.reserve(size, stream)
        if self.shape is None:
            self._device.zero(address, size, stream)
        return address

    def swap(self, shape: tuple[int, ...], steps: int) -> None:
        """The call went well: what its last step wrote is what the next one reads."""
        self.shape = shape
        if steps % 2:
            self.front, self.back = self.back, self.front

    def save(self, stream: int) -> None:
        """Keep what the front holds: the second step of a call writes there."""
        if self.shape is not None:
            size = self.size_of(self.shape)
            self._device.copy(self._saved.reserve(size, stream), self.front.address, size, stream)

    def restore(self, stream: int) -> None:
        """The front holds again what was saved."""
        if self.shape is not None:
            self._device.copy(self.front.address, self._saved.address, self.size_of(self.shape), stream)

    def zero_streams(self, streams: Sequence[int], stream: int) -> None:
        """Zero the rows of these streams; the others stay."""
        if self.shape is None:
            return
        axis = self.stream_axis
        count, size = self.shape[axis], self.size_of(self.shape[axis + 1 :])
        for outer in range(prod(self.shape[:axis])):
            for first, rows in neighbours(streams):
                self._device.zero(self.front.address + (outer * count + first) * size, rows * size, stream)

    def upload(self, array: Array, stream: int) -> None:
        """Write what will be the state after a ``swap``; the array must stay until the stream is synchronized."""
        address = self.back.reserve(array.nbytes, stream)
        self._device.upload(address, array, stream)

    def download(self, stream: int) -> Array | None:
        """The state, once the stream is synchronized; None where it is zero."""
        if self.shape is None:
            return None
        array = np.empty(self.shape, self.value.dtype.numpy)
        self._device.download(array, self.front.address, stream)
        return array

    def size_of(self, shape: tuple[int, ...]) -> int:
        """Bytes."""
        return prod(shape) * self.value.dtype.numpy.itemsize


def neighbours(streams: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs of numbers that follow each other: the first of each, and how many there are."""
    for _, group in groupby(enumerate(sorted(set(streams))), lambda each: each[1] - each[0]):
        run = [stream for _, stream in group]
        yield run[0], len(run)


class States:
    """The state of all recurrent pairs of one session: each with its size in bytes, and the axis of the streams."""

    def __init__(self, memory: Memory, pairs: Sequence[tuple[Recurrence, int, int]], stream: int) -> None:
        self._device, self._stream = memory.device, stream
        self.pairs = {pair.input.name: PairState(memory, pair, size, axis) for pair, size, axis in pairs}
        self.written = {state.output: state for state in self.pairs.values()}

    def reset(self, streams: Sequence[int] | None) -> None:
        for name, state in self.pairs.items():
            if streams is not None:
                refuse_streams(streams, name, state.shape or largest(state.value), state.stream_axis)
        for state in self.pairs.values():
            if streams is None:
                state.shape = None
            else:
                state.zero_streams(streams, self._stream)

    def get(self) -> dict[str, Array]:
        held = {name: state.download(self._stream) for name, state in self.pairs.items()}
        self._device.synchronize(self._stream)
        return {name: array for name, array in held.items() if array is not None}

    def set(self, arrays: Mapping[str, Array]) -> None:
        """Arrays for every state, in its type; none at all is zero. If it fails, the state stays as it was."""
        try:
            for name, array in arrays.items():
                self.pairs[name].upload(array, self._stream)
            self._device.synchronize(self._stream)
        except BaseException:
            with suppress(EngineError):
                self._device.synchronize(self._stream)  # arrays must not go while copies of them are queued
            raise
        for name, state in self.pairs.items():
            if name in arrays:
                state.swap(arrays[name].shape, 1)
            else:
                state.shape = None

    def swap(self, shapes: Mapping[str, tuple[int, ...]], steps: int) -> None:
        """Record a successful call of this many steps, with the shapes of its states by the name of the output."""
        for output, state in self.written.items():
            state.swap(shapes[output], steps)

    def save(self) -> None:
        """Before a call of several steps."""
        for state in self.pairs.values():
            state.save(self._stream)

    def restore(self) -> None:
        """After a call of several steps that failed."""
        for state in self.pairs.values():
            state.restore(self._stream)
