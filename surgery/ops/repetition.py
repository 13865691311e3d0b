"""Repeating a step for as long as it finds something to do."""

from __future__ import annotations

from dataclasses import dataclass

from prototrt.surgery.ir import Array, DType, Graph, Op, Shape


@dataclass(frozen=True, slots=True)
class While(Op):
    """Runs ``body`` once, and again for as long as it asks for another round.

    Inputs: the initial states, then what every round reads (loop invariants). Outputs: the states after
    the last round. The body's inputs are the states and the invariants; its outputs are the new states,
    of the same shapes and types, and a truth value without axes: whether another round is needed.
    """

    body: Graph

    @property
    def states(self) -> int:
        return len(self.body.outputs) - 1

    def shape(self, *inputs: Shape) -> list[Shape]:
        assert self.body.outputs[-1].shape == ()
        assert [value.shape for value in self.body.outputs[:-1]] == list(inputs[: self.states])
        return list(inputs[: self.states])

    def dtypes(self, *inputs: DType) -> list[DType]:
        assert self.body.outputs[-1].dtype is DType.BOOL
        return list(inputs[: self.states])

    def evaluate(self, *inputs: Array) -> list[Array]:
        states, invariants = list(inputs[: self.states]), inputs[self.states :]
        goes_on = True
        while goes_on:
            *states, another_round = self.body.evaluate(*states, *invariants)
            goes_on = bool(another_round)
        return states
