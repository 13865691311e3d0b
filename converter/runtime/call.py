"""One call of an engine: what it is given, checked, and what is queued for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.converter.runtime.launcher import Steps
from prototrt.converter.runtime.operands import DeviceArray, Operand, as_output
from prototrt.converter.runtime.transfers import Source, Target
from prototrt.converter.sessions.signature import Signature, concrete, refuse_lost

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Call:
    """What a call queues. ``sources`` and ``targets`` are in the order of the engine's inputs and outputs.

    Shapes are those of one step. ``streams`` are those of others whose work must be waited for.
    """

    input_shapes: Shapes
    output_shapes: Shapes
    sources: Sequence[Source]
    targets: Sequence[Target]
    steps: Steps
    streams: Sequence[int]
    waits: bool
    results: Mapping[str, Any]


def input_shapes(signature: Signature, given: Shapes, carried: Shapes) -> dict[str, tuple[int, ...]]:
    """The shape of every input: given, carried from the last call, or that of zeros. Raises ``ShapeError``."""
    sizes = signature.sizes(given)
    shapes: dict[str, tuple[int, ...]] = {}
    for value in signature.inputs:
        wanted = concrete(value.shape, sizes)
        if value.name in given:
            signature.refuse_misfit(value, given[value.name], sizes)
        elif value.name in carried:
            refuse_lost(value, carried[value.name], wanted)
        shapes[value.name] = wanted
    return shapes


def checked_targets(signature: Signature, given: Mapping[str, Operand], shapes: Shapes) -> dict[str, Operand]:
    """The arrays that the caller gave for outputs, which can take them. Raises ``ShapeError``."""
    known = {value.name: value for value in signature.results}
    for name in given:
        if name not in known:
            raise NetError(f'there is no output "{name}"', fix=f"the outputs are {', '.join(known)}")
    return {name: as_output(known[name], operand, shapes[name]) for name, operand in given.items()}


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
