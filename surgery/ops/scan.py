"""Running a step once for each element of sequences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.ir import Array, Dim, DType, Graph, Op, Shape, Value, fixed
from prototrt.surgery.ir.axes import Tie, at_same_places, one_by_one

Item = TypeVar("Item")
"""An item for an operand: a value, its shape, an array, or the tensor of a backend."""


@dataclass(frozen=True, slots=True)
class ScanInputs(Generic[Item]):
    """The inputs of a Scan, or of its body, by role. The same place of a role is the same operand in both.

    ``states``: the initial state; in the body, the state before a step.
    ``sequences``: all elements (T, ...); in the body, the element of a step (...).
    ``invariants``: what every step reads; the same in both.
    Iteration gives them in the order in which a node or a body lists its inputs.
    """

    states: tuple[Item, ...]
    sequences: tuple[Item, ...]
    invariants: tuple[Item, ...] = ()

    def __iter__(self) -> Iterator[Item]:
        yield from (*self.states, *self.sequences, *self.invariants)


@dataclass(frozen=True, slots=True)
class ScanOutputs(Generic[Item]):
    """The outputs of a Scan, or of its body, by role. The same place of a role is the same operand in both.

    ``states``: the state after the last step; in the body, the state after a step.
    ``stacked``: all elements (T, ...); in the body, the element of a step (...).
    Iteration gives them in the order in which a node or a body lists its outputs.
    """

    states: tuple[Item, ...]
    stacked: tuple[Item, ...]

    def __iter__(self) -> Iterator[Item]:
        yield from (*self.states, *self.stacked)


@dataclass(frozen=True, slots=True)
class BodyOp(Op):
    """What Scan and While have in common: a body that runs several times, and reads what the node reads."""

    graphs: ClassVar[tuple[str, ...]] = ("body",)

    body: Graph

    def mixes(self, rank: int) -> Collection[int]:
        return range(rank)  # what the body does along its axes is in its primitives

    def faults(self, inputs: Sequence[Value]) -> Sequence[str]:
        if len(inputs) != len(self.body.inputs):
            return [f"it reads {len(inputs)} values, but its body has {len(self.body.inputs)} inputs"]
        return [*self._faults_of_operands(inputs)]

    def _faults_of_operands(self, inputs: Sequence[Value]) -> Iterator[str]:
        """What does not fit between the inputs and the body, which has as many."""
        raise AssertionError(f"{type(self).__name__} does not say what its body reads")


@dataclass(frozen=True, slots=True)
class Scan(BodyOp):
    """Runs ``body`` once for every element of axis 0 of its sequences.

    ``states`` and ``sequences`` are counts. All other inputs are invariants; all other outputs are
    stacked. ``named_inputs`` and ``named_outputs`` sort the operands of a node, or of the body, by
    role: see ``ScanInputs`` and ``ScanOutputs``.
    ``reverse`` runs from the last element to the first, and writes at the place it reads. ``over_places``: the
    elements are rows or columns of a map, not steps in time.
    """

    states: int
    sequences: int
    reverse: bool = False
    over_places: bool = field(default=False, repr=False)

    def named_inputs(self, items: Sequence[Item]) -> ScanInputs[Item]:
        """The items for the inputs of the Scan, by role."""
        split = self.states + self.sequences
        return ScanInputs(
            tuple(items[: self.states]), tuple(items[self.states : split]), tuple(items[split:])
        )

    def named_outputs(self, items: Sequence[Item]) -> ScanOutputs[Item]:
        """The items for the outputs of the Scan, by role."""
        return ScanOutputs(tuple(items[: self.states]), tuple(items[self.states :]))

    def steps(self, inputs: Sequence[Shape]) -> Dim:
        """T for these shapes of the inputs: how often the body runs."""
        return self.named_inputs(inputs).sequences[0][0]

    def shape(self, *inputs: Shape) -> list[Shape]:
        results = self.named_outputs([value.shape for value in self.body.outputs])
        length = self.steps(inputs)
        return [*results.states, *((length, *element) for element in results.stacked)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [value.dtype for value in self.body.outputs]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        outer, inner = self.named_inputs(inputs), self.named_inputs(self.body.inputs)
        written, result = self.named_outputs(outputs), self.named_outputs(self.body.outputs)
        for x, y in (
            *zip((*outer.states, *outer.invariants), (*inner.states, *inner.invariants), strict=True),
            *zip(result.states, inner.states, strict=True),
            *zip(result.states, written.states, strict=True),
        ):
            yield from at_same_places([x], [y])
        leading = next((value for value in outer.sequences if not value.is_constant), outer.sequences[0])
        for all_steps, step in (
            *zip(outer.sequences, inner.sequences, strict=True),
            *zip(written.stacked, result.stacked, strict=True),
        ):
            yield all_steps, step, one_by_one(range(1, len(all_steps.shape)), range(len(step.shape)))
            yield leading, all_steps, one_by_one((0,))

    def _faults_of_operands(self, inputs: Sequence[Value]) -> Iterator[str]:
        outside, inside = self.named_inputs(inputs), self.named_inputs(self.body.inputs)
        after = self.named_outputs(self.body.outputs).states
        steps = outside.sequences[0].shape[0]
        for outer, inner in zip(outside.sequences, inside.sequences, strict=True):
            if (outer.dtype, outer.shape) != (inner.dtype, (steps, *inner.shape)):
                yield f"the body reads {inner} of the sequence {outer}, T is {steps}"
        for outer, inner in zip(
            (*outside.states, *outside.invariants), (*inside.states, *inside.invariants), strict=True
        ):
            if (outer.dtype, outer.shape) != (inner.dtype, inner.shape):
                yield f"{outer} is {inner} in the body"
        for before, end in zip(inside.states, after, strict=True):
            if (before.dtype, before.shape) != (end.dtype, end.shape):
                yield f"a step makes the state {end} of {before}"

    def evaluate(self, *inputs: Array) -> list[Array]:
        values = self.named_inputs(inputs)
        states, steps = values.states, range(len(values.sequences[0]))
        written: dict[int, tuple[Array, ...]] = {}
        for t in reversed(steps) if self.reverse else steps:
            here = ScanInputs(states, tuple(sequence[t] for sequence in values.sequences), values.invariants)
            results = self.named_outputs(self.body.evaluate(*here))
            states, written[t] = results.states, results.stacked
        outputs = zip(*(written[t] for t in steps), strict=True)
        return [*states, *(np.stack(output) for output in outputs)]


def steps_of(scan: Scan, inputs: Sequence[Shape]) -> int:
    """How often the body runs, for these input shapes; a symbol raises ``ShapeError``."""
    return fixed(scan.steps(inputs), "the number of steps T")
