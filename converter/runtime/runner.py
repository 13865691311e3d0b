"""One session on an engine: inputs to the GPU, a run, outputs back, state kept there."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from prototrt.caffe_proto.errors import EngineError, NetError, ShapeError
from prototrt.converter.runtime.device import ALIGNMENT
from prototrt.converter.runtime.engine import Engine
from prototrt.converter.runtime.launcher import Launcher
from prototrt.converter.runtime.memory import Buffer, Memory
from prototrt.converter.runtime.operands import DeviceArray, as_input, as_output, operand_of
from prototrt.converter.runtime.state import States
from prototrt.converter.sessions.evaluation import converted
from prototrt.converter.sessions.signature import concrete
from prototrt.surgery.ir import Array, Dim, Value

log = logging.getLogger(__name__)

Operand = Array | DeviceArray


@dataclass(frozen=True, slots=True)
class Call:
    """What one call was given, checked; ``shapes`` are those of all inputs and outputs."""

    inputs: Mapping[str, Operand]
    targets: Mapping[str, Operand]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def device_arrays(self) -> list[tuple[str, DeviceArray]]:
        both = (*self.inputs.items(), *self.targets.items())
        return [(name, operand) for name, operand in both if isinstance(operand, DeviceArray)]


class EngineRunner:
    """Buffers, stream, context and state of one session.

    A call first checks everything, then queues, and counts only when nothing failed: until
    then the state is that of the call before. It waits for the GPU, unless the stream is the
    caller's and all inputs and outputs are on the GPU.
    """

    def __init__(self, engine: Engine, *, stream: Any = None, graphs: bool = True) -> None:
        self.signature, self._device = engine.signature, engine.device
        self._device.activate()
        memory = Memory(self._device)
        self._has_own_stream = stream is None
        self._stream = memory.stream() if stream is None else self._device.adopt_stream(stream)
        self._free = weakref.finalize(self, memory.close, self._stream)
        self._free.atexit = False  # CUDA is gone by then, and all memory with it
        context = engine.context()
        self._context = context
        self._launcher = Launcher(context, memory, self._stream, graphs and _can_use_graphs(engine))
        largest: dict[Dim, int] = {symbol: span.max for symbol, span in self.signature.symbols.items()}
        sizes = {
            value.name: _bytes(value, concrete(value.shape, largest))
            for value in (*self.signature.inputs, *self.signature.outputs)
        }
        pairs = [(pair, sizes[pair.input.name]) for pair in self.signature.recurrences]
        self._states = States(memory, pairs, self._stream)
        # A state has its own buffers; one that is fed needs a further one, made when it is.
        self._buffers = {
            name: Buffer(memory, 0 if name in self._states.pairs or name in self._states.written else size)
            for name, size in sizes.items()
        }

    def run(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        self._activate()
        call = self._checked(feeds, outputs)
        try:
            results = self._queued(call, outputs)
            on_device = len(call.device_arrays) == len(call.inputs) + len(results)
            if self._has_own_stream or not on_device:
                self._device.synchronize(self._stream)
        except BaseException:
            with suppress(EngineError):  # arrays must not go while copies of them are queued
                self._device.synchronize(self._stream)
            raise
        self._states.swap(call.shapes)
        return results

    def reset(self, streams: Sequence[int] | None) -> None:
        self._activate()
        self._states.reset(streams)

    def get_state(self) -> dict[str, Array]:
        self._activate()
        return self._states.get()

    def set_state(self, state: Mapping[str, Array]) -> None:
        self._activate()
        arrays = {name: np.asarray(array) for name, array in state.items()}
        self.signature.refuse_state({name: array.shape for name, array in arrays.items()})
        states = self.signature.states
        self._states.set(
            {name: np.ascontiguousarray(converted(states[name], array)) for name, array in arrays.items()}
        )

    def close(self) -> None:
        if self._free.alive:
            self._free()
            # TensorRT's context has working memory of its own on the GPU.
            del self._launcher, self._context

    def _activate(self) -> None:
        if not self._free.alive:
            raise ValueError("the session is closed")
        self._device.activate()

    def _checked(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Call:
        """Everything that can be wrong with a call is found here, before any of it is queued."""
        signature = self.signature
        signature.refuse_missing(feeds)
        fed = {
            value.name: operand_of(feeds[value.name], value.name, self._stream)
            for value in signature.inputs
            if value.name in feeds
        }
        shapes = self._input_shapes({name: operand.shape for name, operand in fed.items()})
        inputs = {
            value.name: as_input(value, fed[value.name]) for value in signature.inputs if value.name in fed
        }
        self._launcher.set_shapes(shapes)
        shapes.update({value.name: self._context.shape(value.name) for value in signature.outputs})
        call = Call(inputs, self._targets(outputs, shapes), shapes)
        _refuse_overlap(call)
        return call

    def _input_shapes(self, given: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The shape of every input: given, carried from the last call, or that of zeros."""
        sizes = self.signature.sizes(given)
        shapes: dict[str, tuple[int, ...]] = {}
        for value in self.signature.inputs:
            if value.name in given:
                self.signature.refuse_misfit(value, given[value.name], sizes)
                shapes[value.name] = given[value.name]
                continue
            carried = self._states.pairs[value.name].shape
            if carried is not None:
                self.signature.refuse_lost(value, carried, sizes)
            shapes[value.name] = concrete(value.shape, sizes)
        return shapes

    def _targets(
        self, outputs: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, Operand]:
        known = {value.name: value for value in self.signature.results}
        for name in outputs:
            if name not in known:
                raise NetError(f'there is no output "{name}"', fix=f"the outputs are {', '.join(known)}")
        return {
            name: as_output(known[name], operand_of(given, name, self._stream), shapes[name])
            for name, given in outputs.items()
        }

    def _queued(self, call: Call, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Queue copies to the GPU, the run, and copies back."""
        read = {value.name: self._address_to_read(value, call) for value in self.signature.inputs}
        write = {value.name: self._address_to_write(value, call) for value in self.signature.outputs}
        self._launcher.run({**read, **write})
        return {
            value.name: self._result(value, call, write[value.name], outputs)
            for value in self.signature.results
        }

    def _address_to_read(self, value: Value, call: Call) -> int:
        shape, operand = call.shapes[value.name], call.inputs.get(value.name)
        if operand is None:
            return self._states.pairs[value.name].prepare(shape, self._stream)
        if isinstance(operand, DeviceArray):
            if operand.stream is not None and operand.stream != self._stream:
                self._device.wait(self._stream, operand.stream)
            if operand.address % ALIGNMENT == 0:
                return operand.address
        address = self._buffers[value.name].reserve(_bytes(value, shape), self._stream)
        if isinstance(operand, DeviceArray):  # TensorRT could not read it where it is
            self._device.copy(address, operand.address, operand.nbytes, self._stream)
        else:
            self._device.upload(address, operand, self._stream)
        return address

    def _address_to_write(self, value: Value, call: Call) -> int:
        size = _bytes(value, call.shapes[value.name])
        if value.name in self._states.written:
            return self._states.written[value.name].back.reserve(size, self._stream)
        target = call.targets.get(value.name)
        if isinstance(target, DeviceArray) and target.address % ALIGNMENT == 0:
            return target.address
        return self._buffers[value.name].reserve(size, self._stream)

    def _result(self, value: Value, call: Call, address: int, outputs: Mapping[str, Any]) -> Any:
        """What the caller gets for an output: the array that was given for it, or a new one."""
        target = call.targets.get(value.name)
        if isinstance(target, DeviceArray):
            if target.address != address:
                self._device.copy(target.address, address, target.nbytes, self._stream)
            return outputs[value.name]
        array = np.empty(call.shapes[value.name], value.dtype.numpy) if target is None else target
        self._device.download(array, address, self._stream)
        return array


def _can_use_graphs(engine: Engine) -> bool:
    """Whether it is worth trying; if not, the log says why."""
    if not engine.device.can_capture:
        reason = f"{engine.device.name} has none"
    elif engine.has_loops is None:
        reason = "the manifest does not say whether the engine has loops"
    elif engine.has_loops:
        reason = "the engine has loops; built with sequence step or unroll it has none"
    else:
        return True
    log.info("CUDA graphs are off: %s", reason)
    return False


def _bytes(value: Value, shape: tuple[int, ...]) -> int:
    """The size of a binding; 0 where it is not known yet."""
    return 0 if -1 in shape else int(np.prod(shape, dtype=np.int64)) * value.dtype.numpy.itemsize


def _refuse_overlap(call: Call) -> None:
    """Raise ``ShapeError`` if an output is to be written over an input, or over another output."""
    for (name, one), (other_name, other) in combinations(call.device_arrays, 2):
        is_written = name in call.targets or other_name in call.targets
        overlaps = one.address < other.address + other.nbytes and other.address < one.address + one.nbytes
        if is_written and overlaps:
            raise ShapeError(
                f'"{name}" and "{other_name}" are given the same memory', fix="give each its own"
            )
