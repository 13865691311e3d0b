"""The states of many streams in one block of a GPU's memory, of which a call gets copies of some rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import prod

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.files.signatures.streams import StreamRows
from prototrt.converter.running.runtime.device import ALIGNMENT
from prototrt.converter.running.runtime.memory import Memory
from prototrt.converter.running.runtime.state import PairState, States, neighbours
from prototrt.surgery.ir import Array


@dataclass(frozen=True, slots=True)
class StateGroup:
    """States with rows of one ``size`` in bytes, which one copy moves for a stream.

    ``place`` is where they begin among the states of a stream, ``offset`` where they begin in the memory of a call.
    There is one every ``pitch`` bytes; a state of several passes is a group by itself, whose pitch is a batch.
    """

    states: Sequence[PairState]
    size: int
    rows: int
    place: int
    offset: int
    pitch: int | None

    def copies(
        self, first: int, count: int, place: int, batch: int, stride: int
    ) -> Iterator[tuple[int, ...]]:
        """Copies that move a run of streams, as the arguments of ``copy_rows`` with offsets for addresses.

        It begins at ``first`` in the store, whose rows are ``stride`` bytes, and at ``place`` in a call of ``batch``
        streams.
        """
        pitch = self.pitch or batch * self.size
        for one in range(count) if count < self.rows else ():
            source = (first + one) * stride + self.place
            yield self.offset + (place + one) * self.size, pitch, source, self.size, self.size, self.rows
        for row in range(self.rows) if count >= self.rows else ():
            source = first * stride + self.place + row * self.size
            yield self.offset + row * pitch + place * self.size, self.size, source, stride, self.size, count


class DeviceStateStore:
    """The states of ``count`` streams. Each call reads them at the same addresses, and writes them at others."""

    def __init__(self, memory: Memory, states: States, stream: int, streams: StreamRows, count: int) -> None:
        self._device, self._states, self._stream, self._streams = memory.device, states, stream, streams
        self._groups = list(_groups(states, streams))
        self._stride = sum(group.size * group.rows for group in self._groups)
        last = self._groups[-1]
        block = last.offset + _block(last, streams.sizes.max)
        self._device.synchronize(stream)
        for state in states.pairs.values():
            state.front.free()
            state.back.free()
        self._before, self._after = memory.allocate(block), memory.allocate(block)
        for address in (self._before, self._after):
            self._device.zero(address, block, stream)  # a call also computes rows that nobody uses
        self._store = memory.allocate(count * self._stride)
        self._batch = 0

    def zero(self, rows: Sequence[int]) -> None:
        with self._device.current():
            for first, count in neighbours(rows):
                self._device.zero(self._store + first * self._stride, count * self._stride, self._stream)

    def load(self, rows: Sequence[int], size: int) -> None:
        self._batch = size
        for group in self._groups:
            for number, state in enumerate(group.states):
                offset = group.offset + number * (group.pitch or 0)
                nbytes = size * group.size * group.rows // len(group.states)
                state.front.move(self._before + offset, nbytes)
                state.back.move(self._after + offset, nbytes)
                state.shape = self._shape(state, size)
        with self._device.current():
            for target, pitch, source, stride, width, height in self._copies(rows):
                rows_of_call, rows_of_store = (self._before + target, pitch), (self._store + source, stride)
                self._device.copy_rows(rows_of_call, rows_of_store, width, height, self._stream)

    def keep(self, rows: Sequence[int]) -> None:
        with self._device.current():
            for source, pitch, target, stride, width, height in self._copies(rows):
                rows_of_store, rows_of_call = (self._store + target, stride), (self._after + source, pitch)
                self._device.copy_rows(rows_of_store, rows_of_call, width, height, self._stream)

    def get(self, row: int) -> dict[str, Array]:
        held = np.empty(self._stride, np.uint8)
        with self._device.current():
            self._device.download(held, self._store + row * self._stride, self._stream)
            self._device.synchronize(self._stream)
        return dict(self._parts(held))

    def set(self, row: int, state: Mapping[str, Array]) -> None:
        held = np.empty(self._stride, np.uint8)
        for name, part in self._parts(held):
            part[...] = state[name]
        with self._device.current():
            self._device.upload(self._store + row * self._stride, held, self._stream)
            self._device.synchronize(self._stream)

    def _copies(self, rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
        place = 0
        for first, count in neighbours(rows):
            for group in self._groups:
                yield from group.copies(first, count, place, self._batch, self._stride)
            place += count

    def _parts(self, held: Array) -> Iterator[tuple[str, Array]]:
        """The states of one stream, as views of its bytes."""
        place = 0
        for group in self._groups:
            for state in group.states:
                size = state.size_of(shape := self._shape(state, 1))
                yield (
                    state.value.name,
                    held[place : place + size].view(state.value.dtype.numpy).reshape(shape),
                )
                place += size

    def _shape(self, state: PairState, size: int) -> tuple[int, ...]:
        value = self._streams.signature.states[state.value.name]
        axis = self._streams.axes[value.name]
        return tuple(size if place == axis else int(dim) for place, dim in enumerate(value.shape))


def _groups(states: States, streams: StreamRows) -> Iterator[StateGroup]:
    def key(state: PairState) -> tuple[int, int, str]:
        shape, axis = streams.signature.states[state.value.name].shape, streams.axes[state.value.name]
        passes = prod(int(dim) for dim in shape[:axis])
        size = prod(int(dim) for dim in shape[axis + 1 :]) * state.value.dtype.numpy.itemsize
        return passes, size, state.value.name if passes > 1 else ""

    place = offset = 0
    for (passes, size, name), group in groupby(sorted(states.pairs.values(), key=key), key):
        together = list(group)
        pitch = None if name else _align(streams.sizes.max * size)
        made = StateGroup(together, size, passes * len(together), place, offset, pitch)
        yield made
        place += size * made.rows
        offset += _block(made, streams.sizes.max)


def _block(group: StateGroup, most: int) -> int:
    """The bytes that a call of ``most`` streams has for a group."""
    return _align(group.rows * (group.pitch or most * group.size))


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
