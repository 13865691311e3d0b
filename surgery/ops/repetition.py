"""Repeating a step until its condition is false."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from prototrt.surgery.ir import Array, DType, Graph, Op, Shape, Value


@dataclass(frozen=True, slots=True)
class While(Op):
    """Runs ``body`` once, then repeats it while its condition is true.

    Inputs: the initial states, then the values that every round reads (loop invariants). Outputs: the states after
    the last round. The body's inputs are the states and the invariants; its outputs are the new states,
    of the same shapes and types, and a truth value without axes: whether another round is needed.
    """

    graphs: ClassVar[tuple[str, ...]] = ("body",)

    body: Graph

    @property
    def states(self) -> int:
        return len(self.body.outputs) - 1

    def shape(self, *inputs: Shape) -> list[Shape]:
        return list(inputs[: self.states])

    def dtypes(self, *inputs: DType) -> list[DType]:
        return list(inputs[: self.states])

    def faults(self, inputs: Sequence[Value]) -> Sequence[str]:
        if len(inputs) != len(self.body.inputs):
            return [f"it reads {len(inputs)} values, but its body has {len(self.body.inputs)} inputs"]
        return [*self._faults_of_operands(inputs)]

    def _faults_of_operands(self, inputs: Sequence[Value]) -> Iterator[str]:
        *after, another_round = self.body.outputs
        for outer, inner in zip(inputs, self.body.inputs, strict=True):
            if (outer.dtype, outer.shape) != (inner.dtype, inner.shape):
                yield f"{outer} is {inner} in the body"
        for before, end in zip(self.body.inputs, after, strict=False):
            if (before.dtype, before.shape) != (end.dtype, end.shape):
                yield f"a round makes the state {end} of {before}"
        if (another_round.dtype, another_round.shape) != (DType.BOOL, ()):
            yield f"{another_round} says whether another round is needed, expected bool[]"

    def evaluate(self, *inputs: Array) -> list[Array]:
        states, invariants = list(inputs[: self.states]), inputs[self.states :]
        goes_on = True
        while goes_on:
            *states, another_round = self.body.evaluate(*states, *invariants)
            goes_on = bool(another_round)
        return states
