"""A GPU made of host memory, and an engine on it that computes with the reference evaluator.

It is there to be strict. Every allocation has addresses of its own, never used again, and holds
poison (NaN) until it is written and after it is freed. Work waits in its stream until somebody
synchronizes, so that what nobody waited for was not done. A run first poisons all its outputs:
an input that shares their memory is lost.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from prototrt import BackendName
from prototrt.caffe_proto.errors import EngineError
from prototrt.converter.reference import ReferenceEvaluator
from prototrt.converter.runtime.device import ALIGNMENT, CaptureError, handle_of
from prototrt.converter.runtime.engine import Engine
from prototrt.converter.sessions.signature import Signature
from prototrt.converter.tensorrt.api import Backend
from prototrt.surgery.ir import Array, DType, Graph, Range, Value, size_at
from prototrt.surgery.ops import Scan

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
        if any(work in queued for queued in self.device.streams.values() for work in self.work):
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
    _recording: list[Work] | None = None

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
        if any(self.streams.values()):
            raise FakeFaultError("memory is freed while work is queued")
        self.pinned = [kept for kept in self.pinned if kept is not array]
        array[:] = POISON

    def free(self, address: int) -> None:
        self._count("free")
        if any(self.streams.values()):
            raise FakeFaultError("memory is freed while work is queued")
        self.memory.pop(address)[:] = POISON

    def create_stream(self) -> int:
        self.streams[handle := 1000 + len(self.streams)] = []
        return handle

    def adopt_stream(self, stream: Any) -> int:
        self.streams.setdefault(handle := handle_of(stream), [])
        return handle

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

    def copy_rows(
        self,
        target: int,
        target_stride: int,
        source: int,
        source_stride: int,
        size: int,
        rows: int,
        stream: int,
    ) -> None:
        self._count("copy_rows")
        for row in range(rows):
            one, other = target + row * target_stride, source + row * source_stride
            self.queue(stream, partial(self._copied, one, other, size))

    def _copied(self, target: int, source: int, size: int) -> None:
        np.copyto(self.bytes_at(target, size), self.bytes_at(source, size))

    def capture(self, stream: int, enqueue: Callable[[], None]) -> FakeGraph:
        self._recording = []
        try:
            self._count("capture")
            enqueue()
        except EngineError as error:
            raise CaptureError(str(error)) from error
        finally:
            recorded, self._recording = self._recording, None
        self.graphs.append(FakeGraph(self, recorded))
        return self.graphs[-1]

    # ------------------------------------------------------------ internals

    def queue(self, stream: int, work: Work) -> None:
        if self._recording is None:
            self.streams[stream].append(work)
        else:
            self._recording.append(work)

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


class FakeContext:
    """An execution context over a graph."""

    def __init__(self, engine: FakeEngine, config: FakeRuntimeConfig | None) -> None:
        self.config = config
        self.engine, self.graph, self.device = engine, engine.graph, engine.device
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.runs: list[dict[str, int]] = []
        """The addresses of each run that was queued."""
        self.is_capturable = True
        self.profiler: Any = None
        self.profile = 0

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        if shape in self.engine.refused_shapes:
            self.shapes.pop(name, None)  # nothing says that the old one stays
            return False
        self.shapes[name] = shape
        return True

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        if self.engine.refuses_profiles:
            return False
        self.profile = profile
        self.shapes.clear()
        return True

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        symbols = {
            str(dim): size
            for value in self.graph.inputs
            for dim, size in zip(value.shape, self.shapes[value.name], strict=True)
        }
        (shape,) = {value.shape for value in self.graph.outputs if value.name == name}
        return tuple(size_at(dim, symbols) for dim in shape)

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return address % ALIGNMENT == 0

    def execute_async_v3(self, stream: int) -> bool:
        if self.engine.refuses_to_run:
            return False
        addresses, shapes = dict(self.addresses), dict(self.shapes)
        outputs = {value.name: self.get_tensor_shape(value.name) for value in self.graph.outputs}
        self.runs.append(addresses)
        if self.profiler is not None:
            for node in self.graph.nodes:
                self.profiler.report_layer_time(node.name, 0.25)
        if self.config is not None and self.config.cache is not None:
            self.config.cache.kernels.add(str(sorted(shapes.items())))
        self.device.queue(stream, lambda: self._compute(addresses, shapes, outputs))
        return True

    def _compute(
        self,
        addresses: Mapping[str, int],
        shapes: Mapping[str, tuple[int, ...]],
        outputs: Mapping[str, tuple[int, ...]],
    ) -> None:
        for value in self.graph.outputs:
            size = int(np.prod(outputs[value.name])) * value.dtype.numpy.itemsize
            self.device.bytes_at(addresses[value.name], size).fill(POISON)
        feeds = {
            value.name: self.device.read(addresses[value.name], shapes[value.name], value.dtype.numpy)
            for value in self.graph.inputs
        }
        for name, array in ReferenceEvaluator(self.graph).run(feeds).items():
            self.device.write(addresses[name], array)


class FakeRtxContext(FakeContext):
    """An engine that knows beforehand whether it can be captured."""

    def is_stream_capturable(self, stream: int) -> bool:
        return self.is_capturable


class FakeEngine:
    """An ``ICudaEngine`` over a graph."""

    on_host: ClassVar[set[str]] = set()
    profiles: ClassVar[Sequence[Mapping[str, Range]]] = ()
    """The ranges of sizes in each optimization profile; by default, there is one for all sizes."""

    def __init__(self, graph: Graph, device: FakeDevice, is_rtx: bool = True) -> None:
        self.graph, self.device, self.is_rtx = graph, device, is_rtx
        self.values: dict[str, Value] = {value.name: value for value in (*graph.inputs, *graph.outputs)}
        self.contexts: list[FakeContext] = []
        self.refuses_to_run = False
        self.refused_shapes: set[tuple[int, ...]] = set()
        self.refuses_profiles = False

    @property
    def num_io_tensors(self) -> int:
        return len(self.values)

    def get_tensor_name(self, index: int) -> str:
        return list(self.values)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if self.values[name] in self.graph.inputs else TensorIOMode.OUTPUT

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.HOST if name in self.on_host else TensorLocation.DEVICE

    def get_tensor_shape(self, name: str) -> list[int]:
        return [-1 if isinstance(dim, str) else dim for dim in self.values[name].shape]

    def get_tensor_dtype(self, name: str) -> str:
        return self.values[name].dtype.value

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[tuple[int, ...]]:
        ranges = self.profiles[profile] if self.profiles else self.graph.symbols
        return [
            tuple(
                size_at(dim, {symbol: size(span) for symbol, span in ranges.items()})
                for dim in self.values[name].shape
            )
            for size in (attrgetter("min"), attrgetter("opt"), attrgetter("max"))
        ]

    @property
    def num_optimization_profiles(self) -> int:
        return len(self.profiles) or 1

    def create_runtime_config(self) -> FakeRuntimeConfig:
        return FakeRuntimeConfig()

    def create_execution_context(self, config: FakeRuntimeConfig | None = None) -> FakeContext:
        context = FakeRtxContext(self, config) if self.is_rtx else FakeContext(self, config)
        self.contexts.append(context)
        return self.contexts[-1]


class TensorIOMode(enum.Enum):
    INPUT = 1
    OUTPUT = 2


class TensorLocation(enum.Enum):
    DEVICE = 0
    HOST = 1


class DynamicShapesKernelSpecializationStrategy(enum.Enum):
    LAZY = 0
    EAGER = 1


class FakeRuntimeCache:
    """An ``IRuntimeCache``: it can read what it has written, and holds the shapes that were compiled for."""

    def __init__(self) -> None:
        self.kernels: set[str] = set()

    def deserialize(self, blob: bytes) -> bool:
        is_ours = blob.startswith(b"kernels:")
        self.kernels |= set(blob.decode().split(":")[1].split(";")) if is_ours else set()
        return is_ours

    def serialize(self) -> bytes:
        return b"kernels:" + ";".join(sorted(self.kernels)).encode()


class FakeRuntimeConfig:
    """An ``IRuntimeConfig``."""

    def __init__(self) -> None:
        self.dynamic_shapes_kernel_specialization_strategy = DynamicShapesKernelSpecializationStrategy.LAZY
        self.cache: FakeRuntimeCache | None = None

    def create_runtime_cache(self) -> FakeRuntimeCache:
        return FakeRuntimeCache()

    def set_runtime_cache(self, cache: FakeRuntimeCache) -> bool:
        self.cache = cache
        return True


class _Severity(enum.Enum):
    """``ILogger.Severity``."""

    ERROR = 1


class _Logger:
    """``ILogger``."""


class _Profiler:
    """``IProfiler``."""


def fake_tensorrt(graph: Graph, device: FakeDevice, name: str = "tensorrt_rtx") -> Any:
    """A module like TensorRT's: whatever plan it is given is this graph, unless it begins with ``bad``."""

    def runtime(logger: Any) -> Any:
        def deserialize(plan: bytes | memoryview) -> FakeEngine | None:
            if bytes(plan[:3]) == b"bad":
                logger.log(_Severity.ERROR, "the plan is bad")
                return None
            return FakeEngine(graph, device, is_rtx=name == "tensorrt_rtx")

        return SimpleNamespace(deserialize_cuda_engine=deserialize)

    module: Any = ModuleType(name)
    module.__version__ = {"tensorrt_rtx": "1.7.1", "tensorrt": "10.13.0"}[name]
    module.ILogger = _Logger
    module.IProfiler = _Profiler
    module.Runtime = runtime
    if name == "tensorrt_rtx":
        module.DynamicShapesKernelSpecializationStrategy = DynamicShapesKernelSpecializationStrategy
    for dtype in DType:
        setattr(module, "fp8" if dtype is DType.FLOAT8 else dtype.value, dtype.value)
    return module


def fake_engine(graph: Graph, device: FakeDevice | None = None, flavour: BackendName = "rtx") -> Engine:
    """The graph, as an engine on a fake GPU."""
    place = device or FakeDevice()
    has_loops = any(isinstance(node.op, Scan) for node in graph.nodes)
    names = {"rtx": "tensorrt_rtx", "enterprise": "tensorrt"}
    backend = Backend(flavour, fake_tensorrt(graph, place, names[flavour]))
    return Engine(backend, b"plan", place, Signature.of_graph(graph), has_loops=has_loops)


def gpu_of(engine: Engine) -> FakeDevice:
    assert isinstance(engine.device, FakeDevice)
    return engine.device


def contexts_of(engine: Engine) -> list[FakeContext]:
    """The contexts that sessions have made from a fake engine."""
    made: list[FakeContext] = engine._engine.contexts
    return made
