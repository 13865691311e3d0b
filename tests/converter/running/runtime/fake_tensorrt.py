"""A TensorRT whose engines run on the fake GPU, and compute with the reference evaluator.

A run first poisons all its outputs: an input that shares their memory is lost.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from prototrt import BackendName
from prototrt.converter.backends.reference import ReferenceEvaluator
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime.device import ALIGNMENT
from prototrt.converter.running.runtime.engine import Engine
from prototrt.surgery.ir import DType, Graph, Range, Value, size_at
from prototrt.surgery.ops import Scan
from prototrt.tests.converter.running.runtime.fake_gpu import (
    POISON,
    FakeDevice,
    FakeFaultError,
)


class FakeContext:
    """An execution context over a graph."""

    def __init__(
        self, engine: FakeEngine, config: FakeRuntimeConfig | ExecutionContextAllocationStrategy | None
    ) -> None:
        strategy = config if isinstance(config, ExecutionContextAllocationStrategy) else None
        self.config = None if isinstance(config, ExecutionContextAllocationStrategy) else config
        self.engine, self.graph, self.device = engine, engine.graph, engine.device
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.runs: list[dict[str, int]] = []
        """The addresses of each run that was queued."""
        self.is_capturable = True
        self.profiler: Any = None
        self.profile = 0
        self.is_user_managed = ExecutionContextAllocationStrategy.USER_MANAGED in (
            strategy,
            self.config and self.config.strategy,
        )
        self.workspace = (0, 0)
        if not self.is_user_managed:
            engine.reserved += engine.device_memory_size_v2

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

    def set_device_memory(self, memory: int, size: int) -> None:
        assert self.is_user_managed
        assert memory % ALIGNMENT == 0
        assert size >= self.engine.device_memory_size_v2
        self.workspace = (memory, size)

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
            self.config.cache.compile(str(sorted(shapes.items())))
        self.device.queue(stream, lambda: self._run(addresses, shapes, outputs, stream))
        return True

    def _run(
        self,
        addresses: Mapping[str, int],
        shapes: Mapping[str, tuple[int, ...]],
        outputs: Mapping[str, tuple[int, ...]],
        stream: int,
    ) -> None:
        if self.is_user_managed:
            self.device.bytes_at(*self.workspace).fill(POISON)
            if self.engine.streams.setdefault(self.workspace[0], stream) != stream:
                raise FakeFaultError("runs on two streams share their working memory")
        self._compute(addresses, shapes, outputs)

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
        self.device_memory_size_v2 = 1024
        self.reserved = 0
        """Bytes that contexts have allocated by themselves."""
        self.streams: dict[int, int] = {}
        """By the address of working memory, the stream of its runs."""
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
        return str(self.values[name].dtype.value)

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

    def create_execution_context(
        self, config: FakeRuntimeConfig | ExecutionContextAllocationStrategy | None = None
    ) -> FakeContext:
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


class ExecutionContextAllocationStrategy(enum.Enum):
    STATIC = 0
    USER_MANAGED = 2


class FakeRuntimeCache:
    """An ``IRuntimeCache``: it can read what it has written, and holds the shapes that were compiled for."""

    def __init__(self) -> None:
        self.kernels: set[str] = set()
        self.meanwhile: Callable[[], object] = bool
        """Called during a compilation."""
        self.faults: list[str] = []
        self._is_compiling = False

    def compile(self, kernel: str) -> None:
        if kernel not in self.kernels:
            self._is_compiling = True
            self.meanwhile()
            self._is_compiling = False
        self.kernels.add(kernel)

    def deserialize(self, blob: bytes) -> bool:
        is_ours = blob.startswith(b"kernels:")
        self.kernels |= set(blob.decode().split(":")[1].split(";")) if is_ours else set()
        return is_ours

    def serialize(self) -> bytes | None:
        if self._is_compiling:
            self.faults.append("the cache is read while kernels are added")
        return b"kernels:" + ";".join(sorted(self.kernels)).encode()


class FakeRuntimeConfig:
    """An ``IRuntimeConfig``."""

    def __init__(self) -> None:
        self.dynamic_shapes_kernel_specialization_strategy = DynamicShapesKernelSpecializationStrategy.LAZY
        self.cache: FakeRuntimeCache | None = None
        self.strategy = ExecutionContextAllocationStrategy.STATIC

    def set_execution_context_allocation_strategy(self, strategy: ExecutionContextAllocationStrategy) -> None:
        self.strategy = strategy

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
    module.ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy
    if name == "tensorrt_rtx":
        module.DynamicShapesKernelSpecializationStrategy = DynamicShapesKernelSpecializationStrategy
    for dtype in DType:
        setattr(module, "fp8" if dtype is DType.FLOAT8 else dtype.value, dtype.value)
    return module


def fake_engine(
    graph: Graph,
    device: FakeDevice | None = None,
    flavour: BackendName = "rtx",
    *,
    manages_memory: bool = True,
) -> Engine:
    """The graph, as an engine on a fake GPU; of an old TensorRT unless it ``manages_memory``."""
    place = device or FakeDevice()
    has_loops = any(isinstance(node.op, Scan) for node in graph.nodes)
    names = {"rtx": "tensorrt_rtx", "enterprise": "tensorrt"}
    backend = Backend(flavour, fake_tensorrt(graph, place, names[flavour]))
    if not manages_memory:
        del backend.trt.ExecutionContextAllocationStrategy
    return Engine(backend, b"plan", place, Signature.of_graph(graph), has_loops=has_loops)


def gpu_of(engine: Engine) -> FakeDevice:
    assert isinstance(engine.device, FakeDevice)
    return engine.device


def contexts_of(engine: Engine) -> list[FakeContext]:
    """The contexts that sessions have made from a fake engine."""
    made: list[FakeContext] = engine._engine.contexts
    return made
