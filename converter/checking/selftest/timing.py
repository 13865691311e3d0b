"""Measuring on a GPU with CUDA events: our engines, PyTorch's LSTM, and what the GPU can do at best."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from prototrt.converter.checking.selftest.nets import SessionOf, Size
from prototrt.converter.checking.selftest.privacy import anonymous
from prototrt.converter.running.runtime.cuda_python import CudaPythonDevice
from prototrt.converter.running.runtime.memory import Memory
from prototrt.converter.running.runtime.resident import Resident
from prototrt.surgery.ir import Array, Graph

WARM_UP, REPEATS = 10, 100
_COPIED_BYTES = 1 << 28
_CLOCKS_WITHIN = 20
"""Seconds. Where a GPU hangs, nvidia-smi does, too."""


@dataclass(frozen=True)
class Spread:
    """Seconds of one call among many: each timed alone by CUDA, and all in a row by CUDA and by the clock."""

    shortest: float
    median: float
    p99: float
    in_a_row: float
    wall: float


class Stopwatch:
    """Times what is queued on one stream."""

    def __init__(self, device: CudaPythonDevice) -> None:
        self.device, self.stream = device, device.create_stream()
        self._events = [self._call("cudaEventCreate") for _ in range(2)]

    def seconds(self, work: Callable[[], object]) -> float:
        """The median over calls, each timed alone, after some that do not count."""
        return self.spread(work).median

    def spread(self, work: Callable[[], object], repeats: int = REPEATS) -> Spread:
        """After some calls that do not count, each alone, and as many in a row."""
        for _ in range(WARM_UP):
            work()
        alone = [self._once(work) for _ in range(repeats)]
        began = time.perf_counter()
        in_a_row = self._once(lambda: [work() for _ in range(repeats)])
        wall = time.perf_counter() - began
        p99 = float(np.quantile(alone, 0.99, method="higher"))
        return Spread(min(alone), median(alone), p99, in_a_row / repeats, wall / repeats)

    def _once(self, work: Callable[[], object]) -> float:
        first, last = self._events
        self._call("cudaEventRecord", first, self.stream)
        work()
        self._call("cudaEventRecord", last, self.stream)
        self._call("cudaEventSynchronize", last)
        return float(self._call("cudaEventElapsedTime", first, last)) / 1e3

    def _call(self, name: str, *arguments: Any) -> Any:
        return self.device._call(name, *arguments)


def engine_spread(graph: Graph, watch: Stopwatch, session_of: SessionOf, graphs: bool) -> Spread:
    """One call of an engine, prepared: inputs and outputs on the GPU, state fed back."""
    device, stream = watch.device, watch.stream
    random = np.random.default_rng(1)
    feeds = {
        value.name: random.random(_sizes(value.shape), np.float32)
        for value in graph.inputs
        if value not in graph.state_inputs
    }
    with session_of(graph, device=device, stream=stream, graphs=graphs) as session:
        results = {
            value.name: np.zeros(_sizes(value.shape), np.float32) for value in session.signature.results
        }
        with residents(device, stream, feeds) as inputs, residents(device, stream, results) as outputs:
            return watch.spread(session.prepare(inputs, outputs).run)


@contextmanager
def residents(
    device: CudaPythonDevice, stream: int, arrays: Mapping[str, Array]
) -> Iterator[dict[str, Resident]]:
    """Copies on the GPU, which are freed whatever happens: what is checked next needs the memory."""
    memory = Memory(device)
    try:
        yield {name: Resident(memory, array, stream) for name, array in arrays.items()}
    finally:
        memory.close(stream)


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
        for held, new in zip(state, lstm(x, tuple(state))[1], strict=True):
            held.copy_(new)

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
    """What a large copy within the GPU reads and writes."""
    memory, stream = Memory(watch.device), watch.stream
    try:
        one, other = memory.allocate(_COPIED_BYTES), memory.allocate(_COPIED_BYTES)
        return 2 * _COPIED_BYTES / watch.seconds(lambda: watch.device.copy(one, other, _COPIED_BYTES, stream))
    finally:
        memory.close(stream)


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


def clocks() -> str:
    """The current clocks of the GPU, from nvidia-smi: speeds mean little without them."""
    if (command := shutil.which("nvidia-smi")) is None:
        return "nvidia-smi is not here"
    query = "clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,power.draw"
    options = [f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            [command, *options], capture_output=True, text=True, check=False, timeout=_CLOCKS_WITHIN
        )
    except subprocess.TimeoutExpired:
        return f"nvidia-smi did not answer within {_CLOCKS_WITHIN} s"
    if answer.returncode:
        return anonymous(answer.stderr.strip())
    return f"{query}: {'; '.join(answer.stdout.splitlines())}"


def _sizes(shape: tuple[int | str, ...]) -> tuple[int, ...]:
    return tuple(int(dim) for dim in shape)
