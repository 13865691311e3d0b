"""The memory in which TensorRT computes, shared by all contexts of an engine whose runs take turns on one stream."""

from __future__ import annotations

from threading import RLock

from prototrt.converter.running.runtime.device import Device


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
