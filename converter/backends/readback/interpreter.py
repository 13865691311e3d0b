"""Evaluates a TensorRT network in numpy, by reading it back layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError, ConversionError, ShapeError
from prototrt.converter.backends.readback.actions import Action, Values
from prototrt.converter.backends.readback.dtypes import NetworkTensor
from prototrt.converter.backends.readback.registry import Array
from prototrt.converter.backends.readback.schedule import schedule

INetworkDefinition: TypeAlias = Any  # TensorRT's bindings carry no types


class NetworkInterpreter:
    """What a network computes, according only to TensorRT's documentation, without our primitives.

    It shows that the network means the right thing, not that TensorRT's kernels do. ``trt`` is the module
    that the network comes from. The network is read once. Its weights are referenced, not copied: where
    they were given as addresses, TensorRT does not keep their arrays alive. ``owner`` is whatever does.
    """

    def __init__(self, trt: ModuleType, network: INetworkDefinition, owner: object = None) -> None:
        self._kept_alive = network, owner
        self._inputs = _tensors(network.num_inputs, network.get_input, "input")
        self._outputs = _tensors(network.num_outputs, network.get_output, "output")
        self._actions = schedule(trt, network)
        self._refuse_hidden_outputs()
        self._dead_after = _last_reads(self._actions, keep=self._outputs)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs by name. Each input needs one array, of its dtype (BF16: float32) and shape."""
        values = self._held_inputs(feeds)
        with np.errstate(all="ignore"):
            for action, dead in zip(self._actions, self._dead_after, strict=True):
                action.run(values)
                for name in dead:
                    values.pop(name, None)
        return {name: values[name].astype(output.user_dtype) for name, output in self._outputs.items()}

    def _held_inputs(self, feeds: Mapping[str, Array]) -> Values:
        names = ", ".join(f'"{name}"' for name in self._inputs)
        for name in feeds:
            if name not in self._inputs:
                raise ConversionError(f'the network has no input "{name}"', fix=f"its inputs are: {names}")
        for name in self._inputs:
            if name not in feeds:
                raise ConversionError(
                    f'no array is given for input "{name}"', fix=f"give one for each of: {names}"
                )
        return {name: _held_input(tensor, feeds[name]) for name, tensor in self._inputs.items()}

    def _refuse_hidden_outputs(self) -> None:
        written = set(self._inputs).union(*(action.writes for action in self._actions))
        for name in self._outputs:
            if name not in written:
                raise BuildError(
                    "stands inside a loop, whose tensors cannot be outputs",
                    where=f'network output "{name}"',
                    fix="bring it out through an output of the loop",
                )


def _tensors(count: int, get: Any, what: str) -> dict[str, NetworkTensor]:
    tensors = [get(i) for i in range(count)]
    return {tensor.name: NetworkTensor.of(tensor, f'network {what} "{tensor.name}"') for tensor in tensors}


def _held_input(tensor: NetworkTensor, value: Array) -> Array:
    where = f'network input "{tensor.name}"'
    if value.dtype != tensor.user_dtype:
        raise ShapeError(f"dtype is {value.dtype}, expected {tensor.user_dtype}", where=where)
    if not tensor.accepts(value.shape):
        raise ShapeError(f"shape is {value.shape}, expected {tensor.shape}", where=where)
    return tensor.hold(value, where)


def _last_reads(actions: Sequence[Action], keep: Mapping[str, NetworkTensor]) -> list[list[str]]:
    """For each action, the tensors that nothing reads after it: large networks need not hold them all."""
    last: dict[str, int] = {}
    for i, action in enumerate(actions):
        for name in action.reads | action.writes:
            last[name] = i
    dead: list[list[str]] = [[] for _ in actions]
    for name, i in last.items():
        if name not in keep:
            dead[i].append(name)
    return dead
