"""A plan, deserialized: the few calls of TensorRT's runtime that running needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.backends.tensorrt.network import recording_logger
from prototrt.converter.backends.tensorrt.tile_plugin import register_tile_plugin
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime.bindings import (
    profile_shapes,
    refuse_other_bindings,
    signature_of_engine,
)
from prototrt.converter.running.runtime.device import Device
from prototrt.converter.running.runtime.kernel_cache import KernelCache
from prototrt.converter.running.runtime.memory import Workspace

Shape: TypeAlias = tuple[int, ...]
Profile: TypeAlias = tuple[Shape, Shape]
"""The smallest and the largest shape of an input."""


class Engine:
    """An engine in the memory of one GPU, run by any number of sessions.

    ``has_loops`` is None where that is not known. Without a ``signature`` it is read from
    the engine, which knows its inputs and outputs but no recurrent pairs.
    """

    def __init__(
        self,
        backend: Backend,
        plan: bytes | memoryview,
        device: Device,
        signature: Signature | None = None,
        *,
        has_loops: bool | None = None,
        built_with: str | None = None,
        kernels: KernelCache | None = None,
    ) -> None:
        self.backend, self.device, self.has_loops = backend, device, has_loops
        self.kernels = kernels or KernelCache(None)
        with device.current():
            self._logger = recording_logger(backend.trt)
            self._runtime = backend.trt.Runtime(self._logger)
            register_tile_plugin(backend)
            self._engine = self._runtime.deserialize_cuda_engine(plan)
            if self._engine is None:
                raise self._refusal(built_with)
            actual = signature_of_engine(self._engine, backend)
            self._profiles = _profiles_of(self._engine, actual)
            if signature is not None:
                refuse_other_bindings(signature, actual, has_profiles=len(self._profiles) > 1)
            self.signature = signature or actual
            # From TensorRT 10.1 on.
            has_size = hasattr(self._engine, "device_memory_size_v2")
            strategies = (
                getattr(backend.trt, "ExecutionContextAllocationStrategy", None) if has_size else None
            )
            self._user_managed: Any = None if strategies is None else strategies.USER_MANAGED
            self._workspaces: WeakValueDictionary[int, Workspace] = WeakValueDictionary()
            self._lock = Lock()
            self._config = self._runtime_config()

    def workspace(self, stream: int) -> Workspace:
        """The working memory for all runs on this stream."""
        with self._lock:
            workspace = self._workspaces.get(stream)
            if workspace is None:
                size = self._engine.device_memory_size_v2 if self._user_managed is not None else None
                workspace = self._workspaces[stream] = Workspace(self.device, size)
            return workspace

    def context(self, workspace: Workspace) -> Context:
        """Something to run the engine with."""
        options = self._user_managed if self._config is None else self._config
        with self.kernels.lock:
            context = self._engine.create_execution_context(*(() if options is None else (options,)))
        if context is None:
            raise EngineError("TensorRT made no execution context", because=self._log_text())
        if workspace.size is not None:
            context.set_device_memory(workspace.address, workspace.size)
        return Context(context, self._log_text, self.backend.trt, self._profiles, self.kernels.lock)

    def _runtime_config(self) -> Any:
        """How TensorRT for RTX runs; None for what is not known."""
        strategies = getattr(self.backend.trt, "DynamicShapesKernelSpecializationStrategy", None)
        if strategies is None:
            return None
        config = self._engine.create_runtime_config()
        # The default, LAZY, changes kernels without notice to a graph that was captured.
        config.dynamic_shapes_kernel_specialization_strategy = strategies.EAGER
        if self._user_managed is not None:
            config.set_execution_context_allocation_strategy(self._user_managed)
        self.kernels.attach(config)
        return config

    def _refusal(self, built_with: str | None) -> EngineError:
        here = f"{self.backend.trt.__name__} {self.backend.version}"
        other = built_with is not None and built_with != self.backend.version
        return EngineError(
            f"{here} cannot load the plan" + (f", which {built_with} built" if other else ""),
            because=self._log_text(),
            fix=Worded(
                "convert the model again, with the TensorRT and on the kind of GPU that will run it;"
                " {} says which TensorRT runs on this GPU",
                Command("doctor"),
            ),
        )

    def _log_text(self) -> str:
        return Worded.joined("\n          ", self._logger.last or ["it gave no reason"])


def _profiles_of(engine: Any, signature: Signature) -> list[dict[str, Profile]]:
    """For each optimization profile, the smallest and the largest shapes of the inputs that vary."""
    shapes = {
        value.name: profile_shapes(engine, value.name)
        for value in signature.inputs
        if any(not isinstance(dim, int) for dim in value.shape)
    }
    return [
        {name: (each[place][0], each[place][-1]) for name, each in shapes.items()}
        for place in range(engine.num_optimization_profiles)
    ]


def _fits(shape: Shape, profile: Profile) -> bool:
    return len(shape) == len(profile[0]) and all(
        least <= size <= most for least, size, most in zip(profile[0], shape, profile[1], strict=True)
    )


class Context:
    """An ``IExecutionContext``; what it refuses is an ``EngineError``.

    TensorRT may compile where shapes are set, and in the run after that: ``compiling`` is held then.
    """

    def __init__(
        self,
        context: Any,
        log_text: Any,
        trt: Any,
        profiles: Sequence[Mapping[str, Profile]],
        compiling: AbstractContextManager[object],
    ) -> None:
        self._context, self._log_text, self._trt = context, log_text, trt
        self._profiles, self._profile = profiles, 0
        self._compiling, self._is_compiled = compiling, False

    def choose_profile(self, shapes: Mapping[str, Shape], stream: int) -> bool:
        """Take the first profile that these shapes fit. True if it is another one: then no shape is set any more."""
        if len(self._profiles) < 2:
            return False
        fitting = [
            place
            for place, profile in enumerate(self._profiles)
            if all(_fits(shapes[name], sizes) for name, sizes in profile.items())
        ]
        if not fitting:
            shapes_text = ", ".join(f"{name} {shapes[name]}" for name in self._profiles[0])
            raise EngineError(
                f"no profile of the engine takes these shapes: {shapes_text}",
                fix=Worded(
                    "give shapes that fit a profile, or build the engine with {} for these",
                    Option("profiles"),
                ),
            )
        if fitting[0] == self._profile:
            return False
        if not self._context.set_optimization_profile_async(fitting[0], stream):
            raise EngineError(f"TensorRT refuses profile {fitting[0]}", because=self._log_text())
        self._profile = fitting[0]
        return True

    def set_shape(self, name: str, shape: tuple[int, ...]) -> None:
        self._is_compiled = False
        with self._compiling:
            is_set = self._context.set_input_shape(name, shape)
        if not is_set:
            raise EngineError(f'TensorRT refuses the shape {shape} of "{name}"', because=self._log_text())

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an output, after the shapes of all inputs have been set."""
        shape = tuple(self._context.get_tensor_shape(name))
        if min(shape, default=0) < 0:
            raise EngineError(f'TensorRT does not know the shape of "{name}" beforehand: {shape}')
        return shape

    def set_address(self, name: str, address: int) -> None:
        if not self._context.set_tensor_address(name, address):
            raise EngineError(f'TensorRT refuses the address of "{name}"', because=self._log_text())

    def enqueue(self, stream: int) -> None:
        """Queue one run on the stream."""
        with nullcontext() if self._is_compiled else self._compiling:
            is_queued = self._context.execute_async_v3(stream)
        if not is_queued:
            raise EngineError("TensorRT did not run the engine", because=self._log_text())
        self._is_compiled = True

    @property
    def tells_capture(self) -> bool:
        """Whether TensorRT reports beforehand what can become a CUDA graph. Only TensorRT for RTX does."""
        return hasattr(self._context, "is_stream_capturable")

    def can_capture(self, stream: int) -> bool:
        """Whether a run on this stream may become a CUDA graph, as far as TensorRT reports beforehand."""
        return not self.tells_capture or bool(self._context.is_stream_capturable(stream))

    @contextmanager
    def profile_layers(self) -> Iterator[list[tuple[str, float]]]:
        """What runs within the block is timed by TensorRT: layers and seconds, once the stream is done."""
        layers: list[tuple[str, float]] = []
        self._context.profiler = _profiler(self._trt, layers)
        try:
            yield layers
        finally:
            self._context.profiler = None


def _profiler(trt: Any, layers: list[tuple[str, float]]) -> Any:
    class Profiler(trt.IProfiler):  # type: ignore[misc]  # the bindings carry no types
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            layers.append((layer_name, ms / 1e3))

    return Profiler()
