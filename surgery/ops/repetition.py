"""Repeating a step until its condition is false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, DType, Shape, Value
from prototrt.surgery.ir.axes import Tie, at_same_places
from prototrt.surgery.ops.scan import BodyOp, Item


@dataclass(frozen=True, slots=True)
class WhileInputs(Generic[Item]):
    """The inputs of a While, or of its body, by role. The same place of a role is the same operand in both.

    ``states``: the initial states; in the body, the states before a round.
    ``invariants``: what every round reads; the same in both.
    Iteration gives them in the order in which a node or a body lists its inputs.
    """

    states: tuple[Item, ...]
    invariants: tuple[Item, ...]

    def __iter__(self) -> Iterator[Item]:
        yield from (*self.states, *self.invariants)


@dataclass(frozen=True, slots=True)
class RoundOutputs(Generic[Item]):
    """The outputs of the body of a While, by role.

    ``states``: the states after a round, with the shapes and types of those before it.
    ``another_round``: whether another round is needed, a bool without axes; None where their number is fixed.
    """

    states: tuple[Item, ...]
    another_round: Item | None


@dataclass(frozen=True, slots=True)
class While(BodyOp):
    """Runs ``body`` once, then repeats it while another round is needed. Its outputs are the states after the last.

    ``named_inputs`` and ``round_outputs`` sort operands by role: see ``WhileInputs`` and ``RoundOutputs``. With
    ``rounds`` it runs so often, and its body has no condition: then CUDA graphs can hold it.
    """

    rounds: int | None = None

    def named_inputs(self, items: Sequence[Item]) -> WhileInputs[Item]:
        """The items for the inputs of the While, by role."""
        count = len(self.body.outputs) - (self.rounds is None)
        return WhileInputs(tuple(items[:count]), tuple(items[count:]))

    def round_outputs(self, items: Sequence[Item]) -> RoundOutputs[Item]:
        """The items for the outputs of the body, by role."""
        if self.rounds is not None:
            return RoundOutputs(tuple(items), None)
        *states, another_round = items
        return RoundOutputs(tuple(states), another_round)

    def shape(self, *inputs: Shape) -> list[Shape]:
        return [*self.named_inputs(inputs).states]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [*self.named_inputs(inputs).states]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        after = self.round_outputs(self.body.outputs).states
        for outer, inner in zip(inputs, self.body.inputs, strict=True):
            yield from at_same_places([outer], [inner])
        for before, state, result in zip(self.body.inputs, after, outputs, strict=False):
            yield from at_same_places([state], [before, result])

    def _faults_of_operands(self, inputs: Sequence[Value]) -> Iterator[str]:
        results = self.round_outputs(self.body.outputs)
        for outer, inner in zip(inputs, self.body.inputs, strict=True):
            if (outer.dtype, outer.shape) != (inner.dtype, inner.shape):
                yield f"{outer} is {inner} in the body"
        for before, end in zip(self.named_inputs(self.body.inputs).states, results.states, strict=True):
            if (before.dtype, before.shape) != (end.dtype, end.shape):
                yield f"a round makes the state {end} of {before}"
        another = results.another_round
        if another is not None and (another.dtype, another.shape) != (DType.BOOL, ()):
            yield f"{another} says whether another round is needed, expected bool[]"

    def evaluate(self, *inputs: Array) -> list[Array]:
        values = self.named_inputs(inputs)
        number = 0
        while True:
            number += 1
            results = self.round_outputs(self.body.evaluate(*values))
            if not results.another_round if self.rounds is None else number == self.rounds:
                return [*results.states]
            values = WhileInputs(results.states, values.invariants)
