"""An engine that computes with PyTorch, on the addresses and the stream that it is given.

It stands in for TensorRT's where that does not run: on any CUDA machine it proves the adapter, CUDA graphs, DLPack,
freeing and threads; over the fake GPU it proves that real tensors are read and refused as they should be.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from math import prod
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime.device import Device
from prototrt.converter.running.runtime.engine import Engine
from prototrt.surgery.ir import DType, Graph, Op, Value
from prototrt.surgery.ops import (
    Affine,
    Binary,
    Cast,
    Concat,
    Identity,
    LeakyReLU,
    MatMul,
    Reshape,
    Scan,
    Sigmoid,
    Slice,
    Softmax,
    TanH,
)
from prototrt.surgery.ops.scan import ScanInputs
from prototrt.surgery.ops.shape import Axis
from prototrt.surgery.pipeline import lowered
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import FakeContext, FakeEngine, fake_tensorrt

Tensor: TypeAlias = Any


@cache
def torch() -> Any:
    return importlib.import_module("torch")


_OPS: dict[type[Op], Callable[..., Tensor]] = {
    Affine: lambda op, x, scale, shift: x * _per_channel(scale, x) + _per_channel(shift, x),
    Binary: lambda op, a, b: getattr(torch(), op.kind.value)(a, b),
    Cast: lambda op, x: x.to(getattr(torch(), op.to.value)),
    Concat: lambda op, *x: torch().cat(x, op.axis),
    Identity: lambda op, x: x,
    LeakyReLU: lambda op, x: torch().nn.functional.leaky_relu(x, op.slope),
    MatMul: lambda op, a, b: a @ (b.transpose(-1, -2) if op.transpose_b else b),
    Reshape: lambda op, x: x.reshape(
        [x.shape[dim.index] if isinstance(dim, Axis) else dim for dim in op.target]
    ),
    Sigmoid: lambda op, x: torch().sigmoid(x),
    Slice: lambda op, x: x.narrow(op.axis, op.start, op.size),
    Softmax: lambda op, x: torch().softmax(x, op.axis),
    TanH: lambda op, x: torch().tanh(x),
}
KNOWN = (*_OPS, Scan)
_ONE_AT_A_TIME = threading.Lock()
"""PyTorch's allocator does not share its memory between a thread that captures and others."""
_POOLS: list[Any] = []
"""PyTorch aborts if a pool is freed while another thread captures."""


def _per_channel(numbers: Tensor, x: Tensor) -> Tensor:
    return numbers.reshape(-1, *(1,) * (x.ndim - 2))


class TorchEvaluator:
    """The primitives of a graph, in PyTorch on ``where``: ``"cpu"`` or ``"cuda"``."""

    def __init__(self, graph: Graph, where: str) -> None:
        self.graph, self._where = lowered(graph, "reference"), where
        self._constants: dict[Value, Tensor] = {}

    def run(self, feeds: Sequence[Tensor]) -> list[Tensor]:
        return self._run(self.graph, feeds)

    def _run(self, graph: Graph, feeds: Sequence[Tensor]) -> list[Tensor]:
        held = dict(zip(graph.inputs, feeds, strict=True))
        for node in graph.nodes:
            inputs = [self._read(value, held) for value in node.inputs]
            results = (
                self._scan(node.op, inputs)
                if isinstance(node.op, Scan)
                else [_OPS[type(node.op)](node.op, *inputs)]
            )
            held.update(zip(node.outputs, results, strict=True))
        return [self._read(value, held) for value in graph.outputs]

    def _read(self, value: Value, held: Mapping[Value, Tensor]) -> Tensor:
        if value.data is None:
            return held[value]
        if value not in self._constants:
            dtype = getattr(torch(), value.dtype.value)
            # NumPy's bfloat16 is another package's, which PyTorch does not know.
            data = np.asarray(value.data, np.float32) if value.dtype is DType.BFLOAT16 else value.data
            self._constants[value] = torch().tensor(data, dtype=dtype, device=self._where)
        return self._constants[value]

    def _scan(self, scan: Scan, inputs: Sequence[Tensor]) -> list[Tensor]:
        given = scan.named_inputs(inputs)
        states, steps = given.states, range(len(given.sequences[0]))
        written: dict[int, Sequence[Tensor]] = {}
        for t in reversed(steps) if scan.reverse else steps:
            here = ScanInputs(states, tuple(sequence[t] for sequence in given.sequences), given.invariants)
            results = scan.named_outputs(self._run(scan.body, tuple(here)))
            states, written[t] = results.states, results.stacked
        outputs = zip(*(written[t] for t in steps), strict=True)
        return [*states, *(torch().stack(output) for output in outputs)]


class TorchContext(FakeContext):
    """An execution context; on the fake GPU it waits for its turn in the stream, as all work there."""

    def __init__(self, engine: TorchEngine, where: str, config: Any) -> None:
        super().__init__(engine, config)
        self._evaluator, self._where = TorchEvaluator(engine.graph, where), where
        # What is computed under capture lies here, and nothing else: a replay writes there again.
        self._pool = torch().cuda.MemPool() if where == "cuda" else None
        _POOLS.append(self._pool)

    def is_stream_capturable(self, stream: int) -> bool:
        return True

    def execute_async_v3(self, stream: int) -> bool:
        if self._where == "cpu":
            return super().execute_async_v3(stream)
        cuda = torch().cuda
        outputs = {value.name: self.get_tensor_shape(value.name) for value in self.graph.outputs}
        with _ONE_AT_A_TIME, cuda.stream(cuda.ExternalStream(stream)):
            is_captured = cuda.is_current_stream_capturing()
            with cuda.use_mem_pool(self._pool) if is_captured else nullcontext():
                self._compute(dict(self.addresses), dict(self.shapes), outputs)
        return True

    def _compute(
        self,
        addresses: Mapping[str, int],
        shapes: Mapping[str, tuple[int, ...]],
        outputs: Mapping[str, tuple[int, ...]],
    ) -> None:
        with torch().inference_mode():
            feeds = [
                self._at(addresses[value.name], value, shapes[value.name]) for value in self.graph.inputs
            ]
            results = self._evaluator.run(feeds)
            for value, result in zip(self.graph.outputs, results, strict=True):
                self._at(addresses[value.name], value, outputs[value.name]).copy_(result)

    def _at(self, address: int, value: Value, shape: tuple[int, ...]) -> Tensor:
        """The memory at an address, as a tensor."""
        dtype = value.dtype.numpy
        if self._where == "cpu":
            block = (ctypes.c_uint8 * (prod(shape) * dtype.itemsize)).from_address(address)
            return torch().frombuffer(block, dtype=getattr(torch(), value.dtype.value)).reshape(shape)
        interface = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 2}
        return torch().as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")


class TorchEngine(FakeEngine):
    """An ``ICudaEngine`` over a graph. On a GPU ``device`` is no fake, and only its memory is used."""

    def __init__(self, graph: Graph, device: Any, where: str) -> None:
        super().__init__(graph, device)
        self._where = where

    def create_execution_context(self, config: Any = None) -> TorchContext:
        context = TorchContext(self, self._where, config)
        self.contexts.append(context)
        return context


def torch_engine(graph: Graph, device: Device) -> Engine:
    """The graph on a device, the fake one or that of cuda-python. Raises ``ImportError`` without PyTorch."""
    where = "cpu" if isinstance(device, FakeDevice) else "cuda"
    module = fake_tensorrt(graph, FakeDevice())
    module.Runtime = lambda logger: SimpleNamespace(
        deserialize_cuda_engine=lambda plan: TorchEngine(graph, device, where)
    )
    has_loops = any(isinstance(node.op, Scan) for node in graph.nodes)
    return Engine(Backend("rtx", module), b"plan", device, Signature.of_graph(graph), has_loops=has_loops)


def ops_of(graph: Graph) -> set[type[Op]]:
    """The primitives that the stand-in has to know."""
    found: set[type[Op]] = set()
    for node in lowered(graph, "reference").nodes:
        found |= {type(node.op)} | (ops_of(node.op.body) if isinstance(node.op, Scan) else set())
    return found
