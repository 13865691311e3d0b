"""The memory of a session, and the routes of inputs and outputs through it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from prototrt.converter.files.signatures.signature import Signature, largest
from prototrt.converter.running.runtime.memory import Buffer, Memory, StagingBuffer
from prototrt.converter.running.runtime.operands import DeviceArray, Operand
from prototrt.converter.running.runtime.state import States
from prototrt.converter.running.runtime.transfers import (
    CarriedState,
    CopyBackRoute,
    CopyRoute,
    DownloadRoute,
    InputInPlace,
    InputRoute,
    NextState,
    OutputInPlace,
    OutputRoute,
    StagedArray,
    StepLayout,
    UploadRoute,
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

    def input_route(
        self, value: Value, operand: Operand | None, shape: tuple[int, ...], steps: int
    ) -> InputRoute:
        """How an input reaches the engine. ``shape`` is that of one step; without an operand, it is carried state."""
        name, size = value.name, bytes_of(value, shape)
        if operand is None:
            return CarriedState(self.states.pairs[name], shape, size, self.work.stream)
        ours = StepLayout.with_alignment(steps, size)
        if not isinstance(operand, DeviceArray):
            staged = self._stage(value, ours, operand.shape)
            return UploadRoute(self.work, ours, self._buffers[name], value, operand, staged)
        if ours.is_in_place(operand):
            return InputInPlace(operand, ours)
        return CopyRoute(self.work, ours, self._buffers[name], operand)

    def next_state(self, value: Value, shape: tuple[int, ...]) -> OutputRoute:
        """How state reaches the next call."""
        return NextState(self.states.written[value.name], bytes_of(value, shape), self.work.stream)

    def output_route(self, value: Value, operand: Operand, shape: tuple[int, ...], steps: int) -> OutputRoute:
        """How an output reaches the caller. ``shape`` is that of one step."""
        name, ours = value.name, StepLayout.with_alignment(steps, bytes_of(value, shape))
        if not isinstance(operand, DeviceArray):
            staged = self._stage(value, ours, operand.shape)
            return DownloadRoute(self.work, ours, self._buffers[name], operand, staged)
        if ours.is_in_place(operand):
            return OutputInPlace(operand, ours)
        return CopyBackRoute(self.work, ours, self._buffers[name], operand)

    def _stage(self, value: Value, layout: StepLayout, shape: tuple[int, ...]) -> StagedArray:
        return StagedArray(self._staging[value.name], layout, shape, value.dtype.numpy)

    @property
    def carried_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the states that are not zero."""
        return {name: state.shape for name, state in self.states.pairs.items() if state.shape is not None}


def bytes_of(value: Value, shape: tuple[int, ...]) -> int:
    """The size of a binding; 0 where it is not known yet."""
    return 0 if -1 in shape else prod(shape) * value.dtype.numpy.itemsize
