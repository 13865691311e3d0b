"""One call of an engine: what it is given, checked, and what is queued for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.caffe_proto.common.records import replace
from prototrt.converter.files.signatures.signature import concrete, fillable, refuse_lost, shape_of_step
from prototrt.converter.running.runtime.device import DEFAULT_STREAM
from prototrt.converter.running.runtime.launcher import Launcher, Steps
from prototrt.converter.running.runtime.operands import (
    DeviceArray,
    Operand,
    as_input,
    as_output,
    operand_of,
    refuse_copies,
)
from prototrt.converter.running.runtime.ports import Ports, bytes_of
from prototrt.converter.running.runtime.transfers import InputRoute, OutputRoute
from prototrt.surgery.ir import Array, Value

Shapes = Mapping[str, tuple[int, ...]]


class QueuedCall(NamedTuple):
    """What a call queues. Routes are in the order of the engine's inputs and outputs.

    Shapes are those of one step. The call waits for the work on ``streams``. The numbers of ``indices``,
    arrays in the host's memory, are checked each time.
    """

    input_shapes: Shapes
    output_shapes: Shapes
    input_routes: Sequence[InputRoute]
    output_routes: Sequence[OutputRoute]
    steps: Steps
    streams: Sequence[int]
    waits: bool
    results: Mapping[str, Any]
    indices: Mapping[str, Array]


class CallForm(NamedTuple):
    """What all calls of the same shapes share. Shapes are those of one step."""

    input_shapes: Shapes
    output_shapes: Shapes
    carried_states: Mapping[str, InputRoute]
    """By the input: the routes of states from the call before."""
    next_states: Mapping[str, OutputRoute]
    """By the output: the routes of states to the next call."""


class CallMaker:
    """Makes the calls of one session. Everything that can be wrong with one is found here, before it is queued."""

    def __init__(self, launcher: Launcher, ports: Ports, *, has_own_stream: bool) -> None:
        self._launcher, self._ports = launcher, ports
        self._signature, self._work = ports.signature, ports.work
        self._has_own_stream = has_own_stream
        self._picking = {indices.input for indices in self._signature.indices}
        self._last: tuple[tuple[Shapes, Shapes], CallForm] | None = None

    def make(
        self,
        feeds: Mapping[str, Any],
        outputs: Mapping[str, Any],
        steps: int | None = None,
        *,
        is_repeated: bool = False,
    ) -> QueuedCall:
        """A call with these arrays.

        With ``steps``, they have an additional first axis with a row for each step. A call that
        ``is_repeated`` reads them again each time.
        """
        fed = self._operands(feeds, is_repeated)
        form = self._form(fed, steps)
        inputs = {value.name: as_input(value, operand, is_kept=is_repeated) for value, operand in fed.items()}
        whole = form.output_shapes
        if steps is not None:
            whole = {name: (steps, *shape) for name, shape in whole.items()}
        own_outputs = self._targets(outputs, whole, is_repeated)
        refuse_overlap(inputs, own_outputs)
        targets = {value.name: _target(value, own_outputs, whole) for value in self._signature.results}
        input_routes, output_routes, run = self._routes(inputs, targets, form, steps or 1)
        operands = (*inputs.values(), *targets.values())
        waits = self._has_own_stream or not all(isinstance(operand, DeviceArray) for operand in operands)
        results = {name: outputs.get(name, target) for name, target in targets.items()}
        indices = {
            name: operand
            for name, operand in inputs.items()
            if name in self._picking and isinstance(operand, np.ndarray)
        }
        streams = self._streams(operands)
        shapes = form.input_shapes, form.output_shapes
        return QueuedCall(*shapes, input_routes, output_routes, run, streams, waits, results, indices)

    def _operands(self, feeds: Mapping[str, Any], is_repeated: bool) -> dict[Value, Operand]:
        self._signature.refuse_names(feeds)
        return {
            value: self._operand(feeds[value.name], value.name, is_repeated)
            for value in self._signature.inputs
            if value.name in feeds
        }

    def _form(self, fed: Mapping[Value, Operand], steps: int | None) -> CallForm:
        """The form of a call, which the launcher is given. That of the call before is not made again."""
        operands = {
            value.name: operand.shape if steps is None else shape_of_step(value.name, operand.shape, steps)
            for value, operand in fed.items()
        }
        carried = self._ports.carried_shapes
        if self._last is None or self._last[0] != (operands, carried):
            self._last = (operands, carried), self._new_form(operands, carried)
        form = self._last[1]
        self._launcher.set_shapes(form.input_shapes)
        return form

    def _new_form(self, operands: Shapes, carried: Shapes) -> CallForm:
        shapes, ports, signature = self._checked_shapes(operands, carried), self._ports, self._signature
        self._launcher.set_shapes(shapes)
        written = {value.name: self._launcher.output_shape(value.name) for value in signature.outputs}
        reads = {
            value.name: ports.carried_state(value, shapes[value.name])
            for value in signature.inputs
            if value.name not in operands
        }
        writes = {
            value.name: ports.next_state(value, written[value.name])
            for value in signature.outputs
            if value.name in ports.states.written
        }
        return CallForm(shapes, written, reads, writes)

    def _checked_shapes(self, operands: Shapes, carried: Shapes) -> Shapes:
        """Each shape is given, carried from the last call, or that of zeros. Raises ``ShapeError``."""
        sizes, shapes = self._signature.sizes(operands), dict[str, tuple[int, ...]]()
        for value in self._signature.inputs:
            expected = concrete(value.shape, sizes)
            if value.name not in operands:
                if value.name in carried:
                    refuse_lost(value, carried[value.name], expected)
                else:
                    fillable(value, sizes)
            shapes[value.name] = expected
        return shapes

    def _targets(self, outputs: Mapping[str, Any], shapes: Shapes, is_repeated: bool) -> dict[str, Operand]:
        """The arrays that the caller gave for outputs, which can take them. Raises ``ShapeError``."""
        results = {value.name: value for value in self._signature.results}
        for name, array in outputs.items():
            if name not in results:
                raise NetError(f'there is no output "{name}"', fix=f"the outputs are {', '.join(results)}")
            refuse_copies(name, array)
        return {
            name: as_output(results[name], self._operand(array, name, is_repeated), shapes[name])
            for name, array in outputs.items()
        }

    def _operand(self, array: Any, name: str, is_repeated: bool) -> Operand:
        operand = operand_of(array, name, self._work.device, self._work.stream)
        is_ours = is_repeated and self._has_own_stream
        if is_ours and isinstance(operand, DeviceArray) and operand.stream is None:
            # We cannot know how it is filled before the next call; most callers do it on the default stream.
            return replace(operand, stream=DEFAULT_STREAM)
        return operand

    def _routes(
        self,
        inputs: Mapping[str, Operand],
        targets: Mapping[str, Operand],
        form: CallForm,
        count: int,
    ) -> tuple[list[InputRoute], list[OutputRoute], Steps]:
        """A route for each input and each output; also one for each state that the caller gets as well."""
        signature, ports, exposed = self._signature, self._ports, self._signature.exposed_states
        shapes, written = form.input_shapes, form.output_shapes
        ways_in = [
            form.carried_states.get(value.name)
            or ports.input_route(value, inputs[value.name], shapes[value.name], count)
            for value in signature.inputs
        ]
        ways_out = [
            form.next_states.get(value.name)
            or ports.output_route(value, targets[value.name], written[value.name], count)
            for value in signature.outputs
        ]
        ways_out += [
            ports.output_route(value, targets[value.name], written[value.name], count) for value in exposed
        ]
        strides = (*(route.stride for route in ways_in), *(route.stride for route in ways_out))
        sizes = tuple(bytes_of(value, written[value.name]) for value in exposed)
        return ways_in, ways_out, Steps(count, strides, sizes)

    def _streams(self, operands: Iterable[Operand]) -> list[int]:
        """Where others have queued what fills the arrays."""
        streams = {operand.stream for operand in operands if isinstance(operand, DeviceArray)}
        return sorted(stream for stream in streams if stream is not None and stream != self._work.stream)


def _target(value: Value, own_outputs: Mapping[str, Operand], shapes: Shapes) -> Operand:
    return (
        own_outputs[value.name]
        if value.name in own_outputs
        else np.empty(shapes[value.name], value.dtype.numpy)
    )


def refuse_overlap(inputs: Mapping[str, Operand], targets: Mapping[str, Operand]) -> None:
    """Raise ``ShapeError`` if an output is to be written over an input, or over another output."""
    both = (*inputs.items(), *targets.items())
    on_device = [(name, operand) for name, operand in both if isinstance(operand, DeviceArray)]
    for (name, one), (other_name, other) in combinations(on_device, 2):
        is_written = name in targets or other_name in targets
        overlaps = one.address < other.address + other.nbytes and other.address < one.address + one.nbytes
        if is_written and overlaps:
            raise ShapeError(
                f'"{name}" and "{other_name}" are given the same memory',
                fix="allocate one array for each output",
            )
