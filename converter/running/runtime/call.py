"""One call of an engine: what it is given, checked, and what is queued for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prototrt.caffe_proto.common.errors import NetError, ShapeError
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
from prototrt.converter.running.runtime.ports import Ports, bytes_of, with_steps
from prototrt.converter.running.runtime.transfers import InputRoute, OutputRoute
from prototrt.surgery.ir import Array, Value

Shapes = Mapping[str, tuple[int, ...]]


class CallForm(NamedTuple):
    """What all calls with arrays of the same shapes share. Routes are by name, in the order of a call's addresses."""

    input_shapes: Shapes
    """Those of one step."""
    output_shapes: Shapes
    """Those of one step."""
    result_shapes: Shapes
    """Those of the arrays that the caller gets."""
    inputs: Sequence[tuple[str, InputRoute]]
    outputs: Sequence[tuple[str, OutputRoute]]
    """At last, those of states that the caller gets as well."""
    results: Sequence[tuple[str, OutputRoute]]
    """Those that lead to the caller."""
    steps: Steps


class QueuedCall(NamedTuple):
    """A form, and arrays for it: ``inputs``, and ``targets`` for outputs.

    The call waits for the work on ``streams``. The numbers of ``indices``, arrays of the host, are checked each time.
    """

    form: CallForm
    inputs: Mapping[str, Operand]
    targets: Mapping[str, Operand]
    results: Mapping[str, Any]
    streams: Sequence[int]
    waits: bool
    indices: Mapping[str, Array]


class CallMaker:
    """Makes the calls of one session. Everything that can be wrong with one is found here, before it is queued."""

    def __init__(self, launcher: Launcher, ports: Ports, *, has_own_stream: bool) -> None:
        self._launcher, self._ports = launcher, ports
        self._signature, self._work = ports.signature, ports.work
        self._has_own_stream = has_own_stream
        self._picking = {indices.input for indices in self._signature.indices}
        self._last: tuple[tuple[Shapes, Shapes, int | None], CallForm] | None = None

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
        targets = self._targets(outputs, form.result_shapes, is_repeated)
        refuse_overlap(inputs, targets)
        operands = (*inputs.values(), *targets.values())
        on_device = [operand for operand in operands if isinstance(operand, DeviceArray)]
        waits = self._has_own_stream or len(on_device) < len(operands)
        indices = {
            name: operand
            for name, operand in inputs.items()
            if name in self._picking and isinstance(operand, np.ndarray)
        }
        return QueuedCall(
            form, inputs, targets, {**targets, **outputs}, self._streams(on_device), waits, indices
        )

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
        key = operands, self._ports.carried_shapes, steps
        if self._last is None or self._last[0] != key:
            self._last = key, self._new_form(*key)
        form = self._last[1]
        self._launcher.set_shapes(form.input_shapes)
        return form

    def _new_form(self, operands: Shapes, carried: Shapes, steps: int | None) -> CallForm:
        shapes, ports, signature = self._checked_shapes(operands, carried), self._ports, self._signature
        self._launcher.set_shapes(shapes)
        written = {value.name: self._launcher.output_shape(value.name) for value in signature.outputs}
        inputs = [
            ports.input_route(value, shapes[value.name], steps)
            if value.name in operands
            else ports.carried_state(value, shapes[value.name])
            for value in signature.inputs
        ]
        results = {
            value.name: ports.output_route(value, written[value.name], steps) for value in signature.results
        }
        outputs = [
            (
                value.name,
                ports.next_state(value, written[value.name])
                if value.name in ports.states.written
                else results[value.name],
            )
            for value in signature.outputs
        ]
        outputs += [(value.name, results[value.name]) for value in signature.exposed_states]
        strides = (*(route.stride for route in inputs), *(route.stride for _, route in outputs))
        sizes = tuple(bytes_of(value, written[value.name]) for value in signature.exposed_states)
        return CallForm(
            shapes,
            written,
            {name: with_steps(written[name], steps) for name in results},
            [*zip(shapes, inputs, strict=True)],
            outputs,
            [*results.items()],
            Steps(steps or 1, strides, sizes),
        )

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
        """The caller's arrays for outputs, which can take them, and new ones for the others. Raises ``ShapeError``."""
        results = {value.name: value for value in self._signature.results}
        for name, array in outputs.items():
            if name not in results:
                raise NetError(f'there is no output "{name}"', fix=f"the outputs are {', '.join(results)}")
            refuse_copies(name, array)
        return {
            name: as_output(value, self._operand(outputs[name], name, is_repeated), shapes[name])
            if name in outputs
            else np.empty(shapes[name], value.dtype.numpy)
            for name, value in results.items()
        }

    def _operand(self, array: Any, name: str, is_repeated: bool) -> Operand:
        operand = operand_of(array, name, self._work.device, self._work.stream)
        is_ours = is_repeated and self._has_own_stream
        if is_ours and isinstance(operand, DeviceArray) and operand.stream is None:
            # We cannot know how it is filled before the next call; most callers do it on the default stream.
            return operand._replace(stream=DEFAULT_STREAM)
        return operand

    def _streams(self, arrays: Iterable[DeviceArray]) -> list[int]:
        """Where others have queued what fills the arrays."""
        streams = {array.stream for array in arrays}
        return sorted(stream for stream in streams if stream is not None and stream != self._work.stream)


def refuse_overlap(inputs: Mapping[str, Operand], targets: Mapping[str, Operand]) -> None:
    """Raise ``ShapeError`` if an output is to be written over an input, or over another output."""
    written, read = _extents(targets), _extents(inputs)
    for place, (name, first, end) in enumerate(written):
        for other_name, other_first, other_end in (*read, *written[:place]):
            if first < other_end and other_first < end:
                raise ShapeError(
                    f'"{other_name}" and "{name}" are given the same memory',
                    fix="allocate one array for each output",
                )


def _extents(operands: Mapping[str, Operand]) -> list[tuple[str, int, int]]:
    """Of the arrays on the GPU: name, first address, and the address after the last byte."""
    return [
        (name, operand.address, operand.address + operand.nbytes)
        for name, operand in operands.items()
        if isinstance(operand, DeviceArray)
    ]
