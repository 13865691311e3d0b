"""A plan, deserialized: TensorRT's runtime behind the few calls that running needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototrt.caffe_proto.errors import EngineError
from prototrt.converter.runtime.device import Device
from prototrt.converter.sessions.signature import Signature
from prototrt.converter.tensorrt.api import Backend
from prototrt.converter.tensorrt.network import recording_logger
from prototrt.converter.tensorrt.tile_plugin import register_tile_plugin
from prototrt.surgery.ir import DType, Range, Value


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
    ) -> None:
        self.backend, self.device, self.has_loops = backend, device, has_loops
        device.activate()
        self._logger = recording_logger(backend.trt)
        self._runtime = backend.trt.Runtime(self._logger)
        register_tile_plugin(backend)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise self._refusal(built_with)
        self.signature = signature or self._own_signature()
        self._refuse_other_names()

    def context(self) -> Context:
        """Something to run the engine with; each has its own working memory."""
        context = self._engine.create_execution_context()
        if context is None:
            raise EngineError("TensorRT made no execution context", because=self._said())
        return Context(context, self._said)

    def _refusal(self, built_with: str | None) -> EngineError:
        here = f"{self.backend.trt.__name__} {self.backend.version}"
        other = built_with is not None and built_with != self.backend.version
        return EngineError(
            f"{here} cannot load the plan" + (f", which {built_with} built" if other else ""),
            because=self._said(),
            fix="convert the model again with the TensorRT, and for the GPU, that will run it",
        )

    def _refuse_other_names(self) -> None:
        """The manifest speaks of the bindings that the engine has."""
        have = set(self._names())
        told = {value.name for value in (*self.signature.inputs, *self.signature.outputs)}
        if have != told:
            raise EngineError(
                f"the manifest names other inputs and outputs than the plan: {', '.join(sorted(have ^ told))}",
                fix="use the manifest that was written with the plan",
            )

    def _names(self) -> list[str]:
        return [self._engine.get_tensor_name(index) for index in range(self._engine.num_io_tensors)]

    def _said(self) -> str:
        return "\n          ".join(self._logger.last) or "it gave no reason"

    def _own_signature(self) -> Signature:
        symbols: dict[str, Range] = {}
        is_input = {name: self._engine.get_tensor_mode(name).name == "INPUT" for name in self._names()}
        inputs = tuple(self._value(name, symbols) for name, given in is_input.items() if given)
        outputs = tuple(self._value(name, {}) for name, given in is_input.items() if not given)
        return Signature(inputs, outputs, (), symbols)

    def _value(self, name: str, symbols: dict[str, Range]) -> Value:
        """A binding; each axis that varies is a symbol of its own."""
        shape = tuple(self._engine.get_tensor_shape(name))
        dims = tuple(f"{name}.{axis}" if size == -1 else size for axis, size in enumerate(shape))
        if self._engine.get_tensor_mode(name).name == "INPUT" and -1 in shape:
            spans = zip(*self._engine.get_tensor_profile_shape(name, 0), strict=True)
            for dim, span in zip(dims, spans, strict=True):
                if isinstance(dim, str):
                    symbols[dim] = Range(*span)
        return Value(name, self._dtype(name), dims)

    def _dtype(self, name: str) -> DType:
        found = self._engine.get_tensor_dtype(name)
        names: Mapping[Any, DType] = {self.backend.dtype(dtype): dtype for dtype in DType}
        if found not in names:
            raise EngineError(
                f'"{name}" holds {found}, expected one of {", ".join(dtype.value for dtype in DType)}'
            )
        return names[found]


class Context:
    """An ``IExecutionContext``; what it refuses is an ``EngineError``."""

    def __init__(self, context: Any, said: Any) -> None:
        self._context, self._said = context, said

    def set_shape(self, name: str, shape: tuple[int, ...]) -> None:
        if not self._context.set_input_shape(name, shape):
            raise EngineError(f'TensorRT refuses the shape {shape} of "{name}"', because=self._said())

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an output, once those of all inputs are set."""
        shape = tuple(self._context.get_tensor_shape(name))
        if min(shape, default=0) < 0:
            raise EngineError(f'TensorRT does not know the shape of "{name}" beforehand: {shape}')
        return shape

    def set_address(self, name: str, address: int) -> None:
        if not self._context.set_tensor_address(name, address):
            raise EngineError(f'TensorRT refuses the address of "{name}"', because=self._said())

    def enqueue(self, stream: int) -> None:
        """Queue one run on the stream."""
        if not self._context.execute_async_v3(stream):
            raise EngineError("TensorRT did not run the engine", because=self._said())

    def can_capture(self, stream: int) -> bool:
        """Whether a run on this stream may become a CUDA graph, as far as TensorRT tells beforehand."""
        ask = getattr(self._context, "is_stream_capturable", None)  # TensorRT for RTX alone has it
        return ask is None or bool(ask(stream))
