"""PyTorch, CuPy and PyCUDA on the fake GPU, as far as the checks use them. What they compute waits in a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice

_STREAM = 77
"""The one that somebody makes; 0 is the default."""


class FakeTensor(DeviceResident):
    """An array of whichever library; its arithmetic is queued on the stream that is current."""

    def __init__(self, device: FakeDevice, array: Array, place: Place) -> None:
        super().__init__(device, np.array(array))
        self.place = place

    def cuda(self) -> FakeTensor:
        return self

    def cpu(self) -> SimpleNamespace:
        return SimpleNamespace(numpy=self.value)

    def get(self) -> Array:
        return self.value()

    def __add__(self, other: FakeTensor) -> FakeTensor:
        return self._computed(lambda: self.value() + other.value())

    def __mul__(self, factor: float) -> FakeTensor:
        return self._computed(lambda: self.value() * np.float32(factor))

    def _computed(self, compute: Callable[[], Array]) -> FakeTensor:
        result = FakeTensor(self.device, np.full_like(self.array, np.nan), self.place)
        self.device.queue(self.place.stream, lambda: self.device.write(result.address, compute()))
        return result


class Place:
    """The fake GPU, and the stream that is current."""

    def __init__(self, device: FakeDevice) -> None:
        self.device, self.stream = device, 0
        device.adopt_stream(_STREAM)

    def tensor(self, array: Array) -> FakeTensor:
        return FakeTensor(self.device, array, self)

    def synchronize(self) -> None:
        for stream in list(self.device.streams):
            self.device.synchronize(stream)

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before, self.stream = self.stream, stream.cuda_stream
        yield
        self.stream = before

    def new_stream(self) -> SimpleNamespace:
        return SimpleNamespace(cuda_stream=_STREAM, synchronize=lambda: self.device.synchronize(_STREAM))


def fake_torch(device: FakeDevice) -> Any:
    place = Place(device)
    return SimpleNamespace(
        from_numpy=place.tensor,
        empty=lambda *shape, device: place.tensor(np.empty(shape, np.float32)),
        full=lambda shape, value, device: place.tensor(np.full(shape, value, np.float32)),
        cuda=SimpleNamespace(
            is_available=lambda: True,
            synchronize=place.synchronize,
            Stream=place.new_stream,
            stream=place.on,
        ),
    )


def fake_cupy(device: FakeDevice) -> Any:
    place = Place(device)
    current = SimpleNamespace(synchronize=place.synchronize)
    return SimpleNamespace(
        asarray=place.tensor,
        asnumpy=FakeTensor.get,
        empty=lambda shape, dtype: place.tensor(np.empty(shape, dtype)),
        cuda=SimpleNamespace(is_available=lambda: True, get_current_stream=lambda: current),
    )


def fake_gpuarray(device: FakeDevice) -> Any:
    place = Place(device)
    return SimpleNamespace(
        to_gpu=place.tensor, empty=lambda shape, dtype: place.tensor(np.empty(shape, dtype))
    )
