"""The one control-flow primitive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prototrt.surgery.ir import Array, DType, Graph, Op, Shape, fixed


@dataclass(frozen=True, slots=True)
class Scan(Op):
    """Runs ``body`` once for every element of axis 0 of its sequences.

    Inputs: the ``states`` initial states, then the ``sequences`` (each (T, ...)), then what
    every step reads (loop invariants). Outputs: the states after the last step, then one
    sequence for each further output of the body, stacked along a new axis 0.
    The body's inputs are the states, one element of each sequence, the invariants; its
    outputs the new states, then an element of each output sequence.
    ``reverse`` runs from the last element to the first, and writes at the place it reads.
    """

    body: Graph
    states: int
    sequences: int
    reverse: bool = False

    def shape(self, *inputs: Shape) -> list[Shape]:
        length = inputs[self.states][0]
        new, stacked = self.body.outputs[: self.states], self.body.outputs[self.states :]
        return [*(value.shape for value in new), *((length, *value.shape) for value in stacked)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [value.dtype for value in self.body.outputs]

    def evaluate(self, *inputs: Array) -> list[Array]:
        states = list(inputs[: self.states])
        sequences = inputs[self.states : self.states + self.sequences]
        invariants = inputs[self.states + self.sequences :]
        steps = range(len(sequences[0]))
        written: dict[int, list[Array]] = {}
        for t in reversed(steps) if self.reverse else steps:
            results = self.body.evaluate(*states, *(sequence[t] for sequence in sequences), *invariants)
            states, written[t] = results[: self.states], results[self.states :]
        outputs = zip(*(written[t] for t in steps), strict=True)
        return [*states, *(np.stack(output) for output in outputs)]


def steps_of(scan: Scan, inputs: tuple[Shape, ...]) -> int:
    """How often the body runs, for these input shapes."""
    return fixed(inputs[scan.states][0], "the number of steps T")
