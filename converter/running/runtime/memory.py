"""What a session holds on a GPU: buffers, streams, graphs, all freed together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from threading import RLock
from typing import Any

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.running.runtime.device import CapturedGraph, Device
from prototrt.surgery.ir import Array

log = logging.getLogger(__name__)


class _CaptureState(threading.local):
    """Whether this thread captures: what is then to be freed, else None."""

    postponed: list[Callable[[], None]] | None = None


_here = _CaptureState()


class Memory:
    """Owns allocations, so that one ``close`` frees them, whatever happened before."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._held: list[object] = []
        self._adopted: list[int] = []
        self._workspaces: list[Workspace] = []
        self._pinned: list[Array] = []
        self._addresses: set[int] = set()
        self._streams: list[int] = []
        self._graphs: list[CapturedGraph] = []

    def allocate(self, size: int) -> int:
        address = self.device.allocate(size)
        self._addresses.add(address)
        return address

    def free(self, address: int) -> None:
        """Free one buffer. Nothing that is queued may still use it."""
        self._addresses.remove(address)
        self.device.free(address)

    def allocate_pinned(self, size: int) -> Array:
        self._pinned.append(self.device.allocate_pinned(size))
        return self._pinned[-1]

    def free_pinned(self, array: Array) -> None:
        """Free one that has no copy queued."""
        self._pinned = [kept for kept in self._pinned if kept is not array]
        self.device.free_pinned(array)

    def stream(self) -> int:
        """A new stream."""
        self._streams.append(self.device.create_stream())
        return self._streams[-1]

    def adopt(self, stream: Any) -> int:
        """The handle of a caller's stream, which is held as long."""
        self._adopted.append(self.device.adopt_stream(stream))
        self.hold(stream)
        return self._adopted[-1]

    def share(self, workspace: Workspace) -> None:
        """Use it until everything is freed."""
        workspace.use()
        self._workspaces.append(workspace)

    def hold(self, owner: object) -> None:
        """Keep an object until everything is freed, such as one that frees memory of its own when it goes."""
        self._held.append(owner)

    def capture(self, stream: int, enqueue: Callable[[], None]) -> CapturedGraph:
        """A graph of what ``enqueue`` queues.

        CUDA breaks off a capture in which the thread frees memory: sessions that are collected are freed after it.
        """
        before, _here.postponed = _here.postponed, []
        try:
            self._graphs.append(self.device.capture(stream, enqueue))
        finally:
            postponed, _here.postponed = _here.postponed, before
            for free in postponed:
                try:
                    free()
                except EngineError as error:
                    log.warning("a session that was forgotten is not freed: %s", error)
        return self._graphs[-1]

    def drop_graph(self, graph: CapturedGraph, stream: int) -> None:
        """Close one graph, once the stream that may be running it is done."""
        self.device.synchronize(stream)
        self._graphs.remove(graph)
        graph.close()

    def close(self, stream: int) -> None:
        """Free everything, once what is queued on the stream is done.

        What fails does not keep the rest from being freed. Raises ``EngineError`` if something failed.
        """
        if _here.postponed is not None:
            _here.postponed.append(partial(self.close, stream))
            return
        with self.device.current(), ExitStack() as last_first:
            last_first.callback(self._held.clear)
            for handle in self._adopted:
                last_first.callback(self.device.release_stream, handle)
            for each in self._streams:
                last_first.callback(self.device.destroy_stream, each)
            for array in self._pinned:
                last_first.callback(self.device.free_pinned, array)
            for workspace in self._workspaces:
                last_first.callback(workspace.release)
            for address in self._addresses:
                last_first.callback(self.device.free, address)
            for graph in self._graphs:
                last_first.callback(graph.close)
            last_first.callback(self.device.synchronize, stream)
            self._adopted, self._streams, self._pinned, self._graphs = [], [], [], []
            self._workspaces = []
            self._addresses = set()


class Buffer:
    """Memory that grows when more is asked of it; what it held is lost then."""

    def __init__(self, memory: Memory, size: int = 0) -> None:
        self._memory, self._size = memory, 0
        self.address = 0
        if size:
            self._grow(size)

    def reserve(self, size: int, stream: int) -> int:
        """The address of at least this many bytes."""
        if size > self._size or not self.address:
            if self.address:
                self._memory.device.synchronize(stream)  # queued work may still use the old ones
                self._memory.free(self.address)
            self._grow(size)
        return self.address

    def free(self) -> None:
        """Nothing that is queued may still use it."""
        self._memory.free(self.address)
        self.address = 0

    def move(self, address: int, size: int) -> None:
        """From now on, be a part of memory that somebody else owns."""
        self.address, self._size = address, size

    def _grow(self, size: int) -> None:
        self.address, self._size = self._memory.allocate(size), size


class StagingBuffer:
    """Pinned memory of the host that grows when more is asked of it; what it held is lost then."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._bytes: Array | None = None
        self._reserved: Array | None = None

    def reserve(self, size: int, stream: int) -> Array:
        """This many bytes: the array of the last call if it had the same size."""
        if self._reserved is not None and self._reserved.nbytes == size:
            return self._reserved
        if self._bytes is None or self._bytes.nbytes < size:
            if self._bytes is not None:
                self._memory.device.synchronize(stream)  # a copy of the old ones may be queued
                self._memory.free_pinned(self._bytes)
            self._bytes = self._memory.allocate_pinned(size)
        self._reserved = self._bytes[:size]
        return self._reserved


class Workspace:
    """Working memory for the runs of one engine on one stream. ``size`` is None where each context has its own.

    ``turn`` is held while a run is queued, so that runs of several threads follow each other.
    """

    def __init__(self, device: Device, size: int | None) -> None:
        self.size, self.address = size, 0
        self.turn = RLock()
        self._device, self._users = device, 0

    def use(self) -> None:
        """One more session uses it, which must ``release`` it."""
        with self.turn:
            if self.size and not self._users:
                self.address = self._device.allocate(self.size)
            self._users += 1

    def release(self) -> None:
        """A session is closed, and nothing that it queued runs any more. The last one frees the memory."""
        with self.turn:
            self._users -= 1
            if self.size and not self._users:
                self._device.free(self.address)
