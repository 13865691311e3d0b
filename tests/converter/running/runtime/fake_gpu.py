"""A GPU made of host memory.

It is there to be strict. Every allocation has addresses of its own, never used again, and holds
poison (NaN) until it is written and after it is freed. Work waits in its stream until somebody
synchronizes, so that what nobody waited for was not done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.running.runtime.device import ALIGNMENT, CaptureError, Rows, handle_of
from prototrt.surgery.ir import Array

POISON = 0xFF
"""As bytes: NaN in floating point, -1 in integers."""
Work = Callable[[], None]


class FakeFaultError(Exception):
    """What would crash a real GPU, or silently compute nonsense."""


@dataclass
class FakeGraph:
    """Recorded work."""

    device: FakeDevice
    work: list[Work]
    launches: int = 0
    is_closed: bool = False

    def launch(self, stream: int) -> None:
        if self.is_closed:
            raise FakeFaultError("a graph is launched after it was closed")
        self.launches += 1
        for work in self.work:
            self.device.queue(stream, work)

    def close(self) -> None:
        if any(work in queued for queued in [*self.device.streams.values()] for work in self.work):
            raise FakeFaultError("a graph is closed while it runs")
        self.is_closed = True


@dataclass
class FakeDevice:
    """Implements the protocol ``Device``, and counts what is asked of it."""

    name: str = "fake"
    can_capture: bool = True
    memory: dict[int, Array] = field(default_factory=dict)
    streams: dict[int, list[Work]] = field(default_factory=lambda: {0: []})
    graphs: list[FakeGraph] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    fails: set[str] = field(default_factory=set)
    """Names of methods that fail from now on."""
    ordinal: int = 0
    current_ordinal: int = 5
    """The GPU of the calling thread, which is another as long as nobody changes it."""
    pinned: list[Array] = field(default_factory=list)
    elsewhere: dict[int, int] = field(default_factory=dict)
    """By address, memory of other GPUs."""
    _freed: list[Array] = field(default_factory=list)
    _recordings: dict[int, list[Work]] = field(default_factory=dict)
    """By stream, as in CUDA: other threads queue work on their own streams meanwhile."""
    _handles: Iterator[int] = field(default_factory=lambda: count(1001))

    # ------------------------------------------------------------ the protocol

    @contextmanager
    def current(self) -> Iterator[None]:
        self._count("current")
        before, self.current_ordinal = self.current_ordinal, self.ordinal
        yield
        self.current_ordinal = before

    def ordinal_of(self, address: int) -> int | None:
        return self.elsewhere.get(address, self.ordinal)

    def allocate(self, size: int) -> int:
        """Memory with a real address, which is kept forever, so that the address is not used again."""
        self._count("allocate")
        block = np.full(size + ALIGNMENT, POISON, np.uint8)
        block = block[-block.ctypes.data % ALIGNMENT :][:size]
        self.memory[block.ctypes.data] = block
        self._freed.append(block)
        return int(block.ctypes.data)

    def allocate_pinned(self, size: int) -> Array:
        self._count("allocate_pinned")
        self.pinned.append(np.full(size, POISON, np.uint8))
        return self.pinned[-1]

    def free_pinned(self, array: Array) -> None:
        self._count("free_pinned")
        if any([*self.streams.values()]):
            raise FakeFaultError("memory is freed while work is queued")
        self.pinned = [kept for kept in self.pinned if kept is not array]
        array[:] = POISON

    def free(self, address: int) -> None:
        self._count("free")
        if any([*self.streams.values()]):
            raise FakeFaultError("memory is freed while work is queued")
        self.memory.pop(address)[:] = POISON

    def create_stream(self) -> int:
        self.streams[handle := next(self._handles)] = []
        return handle

    def adopt_stream(self, stream: Any) -> int:
        self.streams.setdefault(handle := handle_of(stream), [])
        return handle

    def release_stream(self, stream: int) -> None:
        self._count("release_stream")

    def destroy_stream(self, stream: int) -> None:
        self._count("destroy_stream")
        if self.streams.pop(stream):
            raise FakeFaultError("a stream is destroyed with work in it")

    def synchronize(self, stream: int) -> None:
        self._count("synchronize")
        work, self.streams[stream][:] = list(self.streams[stream]), []
        for step in work:
            step()

    def wait(self, stream: int, other: int) -> None:
        self._count("wait")
        self.queue(stream, lambda: self.synchronize(other))

    def zero(self, address: int, size: int, stream: int) -> None:
        self._count("zero")
        self.queue(stream, lambda: self.bytes_at(address, size).fill(0))

    def upload(self, address: int, array: Array, stream: int) -> None:
        self._count("upload")
        self.queue(stream, lambda: self.write(address, array))

    def download(self, array: Array, address: int, stream: int) -> None:
        self._count("download")
        array.reshape(-1).view(np.uint8).fill(POISON)
        self.queue(stream, lambda: np.copyto(array, self.read(address, array.shape, array.dtype)))

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self._count("copy")
        self.queue(stream, partial(self._copied, target, source, size))

    def copy_rows(self, target: Rows, source: Rows, size: int, count: int, stream: int) -> None:
        self._count("copy_rows")
        for row in range(count):
            one, other = target[0] + row * target[1], source[0] + row * source[1]
            self.queue(stream, partial(self._copied, one, other, size))

    def _copied(self, target: int, source: int, size: int) -> None:
        np.copyto(self.bytes_at(target, size), self.bytes_at(source, size))

    def capture(self, stream: int, enqueue: Callable[[], None]) -> FakeGraph:
        self._recordings[stream] = []
        try:
            self._count("capture")
            enqueue()
        except EngineError as error:
            raise CaptureError(str(error)) from error
        finally:
            recorded = self._recordings.pop(stream)
        self.graphs.append(FakeGraph(self, recorded))
        return self.graphs[-1]

    # ------------------------------------------------------------ internals

    def queue(self, stream: int, work: Work) -> None:
        self._recordings.get(stream, self.streams[stream]).append(work)

    def bytes_at(self, address: int, size: int) -> Array:
        block = self._holds(address, size)
        if block is None:
            raise FakeFaultError(f"{size} bytes at {address:#x} are not allocated")
        return block

    def _holds(self, address: int, size: int) -> Array | None:
        for start, block in self.memory.items():
            if start <= address and address + size <= start + len(block):
                part: Array = block[address - start : address - start + size]
                return part
        return None

    def read(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.bytes_at(address, size).tobytes(), dtype).reshape(shape)

    def write(self, address: int, array: Array) -> None:
        np.copyto(
            self.bytes_at(address, array.nbytes), np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        )

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if name in self.fails:
            raise EngineError(f"{name} failed, as it was told to")

    @contextmanager
    def failing(self, *names: str) -> Iterator[None]:
        self.fails |= set(names)
        yield
        self.fails -= set(names)


@dataclass
class DeviceResident:
    """Somebody else's array on the fake GPU, by ``__cuda_array_interface__``."""

    device: FakeDevice
    array: Array
    offset: int = 0
    stream: int | None = None
    read_only: bool = False
    strides: tuple[int, ...] | None = None
    names_stream: bool = True
    """As the interface does from version 3 on."""

    def __post_init__(self) -> None:
        self.address = self.device.allocate(self.array.nbytes + self.offset) + self.offset
        self.device.write(self.address, self.array)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.address, self.read_only),
            "strides": self.strides,
            **({"stream": self.stream, "version": 3} if self.names_stream else {"version": 2}),
        }

    def value(self) -> Array:
        return self.device.read(self.address, self.array.shape, self.array.dtype)
