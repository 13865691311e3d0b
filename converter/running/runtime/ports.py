"""The memory of a session, and the routes of inputs and outputs through it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from prototrt.converter.files.signatures.signature import Signature, largest
from prototrt.converter.running.runtime.memory import Buffer, Memory, StagingBuffer
from prototrt.converter.running.runtime.state import States
from prototrt.converter.running.runtime.transfers import (
    InputRoute,
    OutputRoute,
    StagedArray,
    StepLayout,
    WorkQueue,
)
from prototrt.surgery.ir import Value


class Ports:
    """Buffers for all inputs and outputs of an engine, as large as its profile allows, and its state."""

    def __init__(self, signature: Signature, memory: Memory, stream: int) -> None:
        sizes = {
            value.name: bytes_of(value, largest(value)) for value in (*signature.inputs, *signature.outputs)
        }
        self.signature, self.work = signature, WorkQueue(memory.device, stream)
        pairs = [
            (pair, sizes[pair.input.name], signature.stream_axis(pair.input.name))
            for pair in signature.recurrences
        ]
        self.states = States(memory, pairs, stream)
        # A state has its own buffers. If the caller feeds it, it needs one more, which is made then.
        own = {*self.states.pairs, *self.states.written}
        self._buffers = {name: Buffer(memory, 0 if name in own else size) for name, size in sizes.items()}
        self._staging = {name: StagingBuffer(memory) for name in sizes}

    def carried_state(self, value: Value, shape: tuple[int, ...]) -> InputRoute:
        """How state of the call before reaches the engine."""
        return self.work.carried_state(self.states.pairs[value.name], shape, bytes_of(value, shape))

    def input_route(self, value: Value, shape: tuple[int, ...], steps: int | None) -> InputRoute:
        """How an input of this shape in each step reaches the engine."""
        return self.work.input_route(value, self._stage(value, shape, steps), self._buffers[value.name])

    def next_state(self, value: Value, shape: tuple[int, ...]) -> OutputRoute:
        """How state reaches the next call."""
        return self.work.next_state(self.states.written[value.name], bytes_of(value, shape))

    def output_route(self, value: Value, shape: tuple[int, ...], steps: int | None) -> OutputRoute:
        """How an output of this shape in each step reaches the caller."""
        return self.work.output_route(self._stage(value, shape, steps), self._buffers[value.name])

    def _stage(self, value: Value, shape: tuple[int, ...], steps: int | None) -> StagedArray:
        layout = StepLayout.with_alignment(steps or 1, bytes_of(value, shape))
        whole = with_steps(shape, steps)
        return StagedArray(self._staging[value.name], layout, whole, value.dtype.numpy)

    @property
    def carried_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the states that are not zero."""
        return {name: state.shape for name, state in self.states.pairs.items() if state.shape is not None}


def bytes_of(value: Value, shape: tuple[int, ...]) -> int:
    """The size of a binding; 0 where it is not known yet."""
    return 0 if -1 in shape else prod(shape) * value.dtype.numpy.itemsize


def with_steps(shape: tuple[int, ...], steps: int | None) -> tuple[int, ...]:
    """The shape of an array with a row for each step, or of one without rows."""
    return shape if steps is None else (steps, *shape)
