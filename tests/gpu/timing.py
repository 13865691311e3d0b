"""Measuring on a GPU with CUDA events: our engines, PyTorch's LSTM, and what the GPU can do at best."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from prototrt.converter.runtime.cuda_python import CudaPythonDevice
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.gpu.nets import Size
from prototrt.tests.gpu.sessions import SessionOf

WARM_UP, REPEATS = 10, 50
_COPIED_BYTES = 1 << 28


class Resident:
    """An array on the GPU."""

    def __init__(self, device: CudaPythonDevice, array: Array, stream: int) -> None:
        self.address = device.allocate(array.nbytes)
        device.upload(self.address, array, stream)
        device.synchronize(stream)
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.address, False),
            "stream": None,  # it is there already
            "version": 3,
        }


class Stopwatch:
    """Times what is queued on one stream."""

    def __init__(self, device: CudaPythonDevice) -> None:
        self.device, self.stream = device, device.create_stream()
        self._events = [self._call("cudaEventCreate") for _ in range(2)]

    def seconds(self, work: Callable[[], object], repeats: int = REPEATS) -> float:
        """The median over calls, each timed alone, after some that do not count."""
        for _ in range(WARM_UP):
            work()
        return median(self._once(work) for _ in range(repeats))

    def _once(self, work: Callable[[], object]) -> float:
        first, last = self._events
        self._call("cudaEventRecord", first, self.stream)
        work()
        self._call("cudaEventRecord", last, self.stream)
        self._call("cudaEventSynchronize", last)
        return float(self._call("cudaEventElapsedTime", first, last)) / 1e3

    def _call(self, name: str, *arguments: Any) -> Any:
        return self.device._call(name, *arguments)


def engine_seconds(graph: Graph, watch: Stopwatch, session_of: SessionOf, graphs: bool) -> float:
    """One call of an engine: inputs and outputs on the GPU, state fed back."""
    device, stream = watch.device, watch.stream
    random = np.random.default_rng(1)
    feeds = {
        value.name: Resident(device, random.random(_sizes(value.shape), np.float32), stream)
        for value in graph.inputs
        if value not in graph.state_inputs
    }
    with session_of(graph, device=device, stream=stream, graphs=graphs) as session:
        targets = {
            value.name: Resident(device, np.zeros(_sizes(value.shape), np.float32), stream)
            for value in session.signature.results
        }
        return watch.seconds(lambda: session.run(feeds, outputs=targets))


def torch_seconds(size: Size, watch: Stopwatch, dtype: str) -> float | None:
    """One call of PyTorch's LSTM, which is cuDNN's, fed with its own state; None without PyTorch."""
    torch = torch_with_gpu()
    if torch is None:
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    lstm = torch.nn.LSTM(size.hidden, size.hidden).to("cuda", getattr(torch, dtype)).eval()
    x = torch.rand(size.steps, size.streams, size.hidden, device="cuda", dtype=getattr(torch, dtype))
    state = [torch.zeros(1, size.streams, size.hidden, device="cuda", dtype=x.dtype) for _ in "hc"]

    def work() -> None:
        state[:] = lstm(x, tuple(state))[1]

    with torch.inference_mode(), torch.cuda.stream(torch.cuda.ExternalStream(watch.stream)):
        return watch.seconds(work)


def torch_with_gpu() -> Any:
    """PyTorch, where it is installed and sees the GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def peak_bytes_per_second(watch: Stopwatch) -> float:
    """What a copy within the GPU reads and writes."""
    device = watch.device
    one, other = device.allocate(_COPIED_BYTES), device.allocate(_COPIED_BYTES)
    seconds = watch.seconds(lambda: device.copy(one, other, _COPIED_BYTES, watch.stream))
    device.synchronize(watch.stream)
    device.free(one)
    device.free(other)
    return 2 * _COPIED_BYTES / seconds


def peak_multiply_adds_per_second(watch: Stopwatch, dtype: str) -> float | None:
    """What a large matrix product of PyTorch reaches; None without PyTorch."""
    torch = torch_with_gpu()
    if torch is None:
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    side = 4096
    a, b = (torch.rand(side, side, device="cuda", dtype=getattr(torch, dtype)) for _ in "ab")
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.ExternalStream(watch.stream)):
        return float(side**3 / watch.seconds(lambda: a @ b))


def _sizes(shape: tuple[int | str, ...]) -> tuple[int, ...]:
    return tuple(int(dim) for dim in shape)
