"""Running a graph call by call, with its state carried from one call to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.surgery.ir import Array, Dim, Graph, Value


class Evaluator(Protocol):
    """Computes all outputs of a graph, states included, from all its inputs."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]: ...


def _reference(graph: Graph) -> Evaluator:
    from prototrt.converter.reference import ReferenceEvaluator

    return ReferenceEvaluator(graph)


def _network(graph: Graph) -> Evaluator:
    from prototrt.converter.network import NetworkInterpreter
    from prototrt.converter.tensorrt.api import find_backend
    from prototrt.converter.tensorrt.builder import network_of

    network = network_of(graph, find_backend())
    # The definition only points to the weights, which ``network`` keeps.
    return NetworkInterpreter(network.trt, network.definition, owner=network)


def _onnx(graph: Graph) -> Evaluator:
    from prototrt.converter.onnx.evaluator import OnnxEvaluator

    return OnnxEvaluator(graph)


def _onnx_lstm(graph: Graph) -> Evaluator:
    from prototrt.converter.onnx.evaluator import OnnxEvaluator

    return OnnxEvaluator(graph, onnx_lstm=True)


WAYS: dict[str, Callable[[Graph], Evaluator]] = {
    "reference": _reference,
    "network": _network,
    "onnx": _onnx,
    "onnx-lstm": _onnx_lstm,
}


class Session:
    """A graph that is called again and again.

    State is zero at first and after ``reset()``; each call starts where the last one ended,
    exactly as in Caffe from one ``forward()`` to the next. So does state that the net exposes,
    unless it is given. ``on`` is ``"reference"`` (the primitives in NumPy), ``"network"`` (the
    network that TensorRT is given, read back and evaluated in NumPy), ``"onnx"`` (the ONNX
    export, run by onnxruntime) or ``"onnx-lstm"`` (the same with ONNX's own LSTM where that fits).
    """

    def __init__(self, graph: Graph, on: str = "reference") -> None:
        if on not in WAYS:
            raise ValueError(f"on is {on!r}, expected one of {', '.join(WAYS)}")
        self.graph = graph
        self._evaluator = WAYS[on](graph)
        self._states = {pair.output.name for pair in graph.recurrences if not pair.exposed}
        self.reset()

    def reset(self) -> None:
        """Forget everything: the state is zero again."""
        self._state: dict[str, Array] = {}

    @property
    def state(self) -> dict[str, Array]:
        """What the next call starts with, by the name of the state's input; empty where it is zero."""
        return dict(self._state)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """One call: the outputs of the net for these inputs.

        An input for state (``NAME_h_0``) may be given, too; it then replaces the state that
        was carried. What the net does not read is ignored. Raises ``NetError`` for inputs
        that are missing and ``ShapeError`` for one that does not fit.
        """
        self._refuse_missing(feeds)
        given: dict[str, Any] = {**self._state, **feeds}
        sizes = self._sizes(given)
        for value in self.graph.state_inputs:
            if value.name not in given:
                given[value.name] = np.zeros([sizes.get(dim, dim) for dim in value.shape], value.dtype.numpy)
        results = self._evaluator.run(
            {value.name: _fitting(value, np.asarray(given[value.name]), sizes) for value in self.graph.inputs}
        )
        self._state = {pair.input.name: results[pair.output.name] for pair in self.graph.recurrences}
        return {name: array for name, array in results.items() if name not in self._states}

    def _sizes(self, given: Mapping[str, Any]) -> dict[Dim, int]:
        """What the symbols of the graph stand for in this call."""
        sizes: dict[Dim, int] = {}
        for value in self.graph.inputs:
            shape = np.shape(given.get(value.name, ()))
            for dim, size in zip(value.shape, shape, strict=False):
                if isinstance(dim, str):
                    sizes.setdefault(dim, size)
                    self._refuse_outside(value, dim, size)
        return sizes

    def _refuse_outside(self, value: Value, symbol: str, size: int) -> None:
        span = self.graph.symbols[symbol]
        if not span.min <= size <= span.max:
            raise ShapeError(f'input "{value.name}" has {symbol} = {size}, expected {span.min} to {span.max}')

    def _refuse_missing(self, given: Mapping[str, Any]) -> None:
        fed = [value for value in self.graph.inputs if value not in self.graph.state_inputs]
        missing = [value for value in fed if value.name not in given]
        if missing:
            names = ", ".join(f"{value.name} {value.shape}" for value in missing)
            raise NetError(f"inputs are missing: {names}", fix="give an array for each of them")


def _fitting(value: Value, array: Array, sizes: Mapping[Dim, int]) -> Array:
    """The array in the input's type; its shape must be the input's."""
    shape = tuple(sizes.get(dim, dim) for dim in value.shape)
    if array.shape != shape:
        raise ShapeError(
            f'input "{value.name}" has the shape {array.shape}, expected {shape}',
            because=None if shape == value.shape else f"the input is {value} and other inputs fix its sizes",
        )
    if array.dtype.kind not in "fiu":
        raise ShapeError(f'input "{value.name}" holds {array.dtype}, expected {value.dtype.value}')
    return array.astype(value.dtype.numpy, copy=False)
