"""Where cuDNN keeps each matrix and bias in the one blob of a recurrent net's weights.

All matrices come first, then all biases. Both are sorted by layer, then by direction: first the matrices
for the input, one per gate, then those for the recurrence.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod

from prototrt.caffe_proto.common.records import dataclass

# cuDNN's order of the gates. The names for an LSTM are those of RecurrentParamSet.
GATES = {
    "lstm": ("input_gate", "forget_gate", "cell", "output_gate"),
    "gru": ("reset", "update", "new"),
}


@dataclass(frozen=True, slots=True)
class PackedArray:
    """One matrix or bias. ``layer`` also counts directions: layer 1 forward of two directions is 2."""

    layer: int
    source: str  # "input" or "recurrent"
    parameter: str  # as in "forget_gate_w"
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class PackedLayout:
    """The layout for a first layer that reads ``inputs`` numbers in each step."""

    mode: str
    inputs: int
    hidden: int
    layers: int
    directions: int

    @cached_property
    def arrays(self) -> dict[tuple[int, str, str], PackedArray]:
        """By layer, source and parameter."""
        return {(array.layer, array.source, array.parameter): array for array in self._walk()}

    @property
    def size(self) -> int:
        """The number of elements."""
        return max(array.offset + prod(array.shape) for array in self.arrays.values())

    def _walk(self) -> Iterator[PackedArray]:
        offset = 0
        for layer, source, parameter in self._order():
            width = self.inputs_of(layer) if source == "input" else self.hidden
            shape = (self.hidden, width) if parameter.endswith("_w") else (self.hidden,)
            yield PackedArray(layer, source, parameter, shape, offset)
            offset += prod(shape)

    def _order(self) -> Iterator[tuple[int, str, str]]:
        for kind in ("w", "b"):
            for layer in range(self.layers * self.directions):
                for source in ("input", "recurrent"):
                    for gate in GATES[self.mode]:
                        yield layer, source, f"{gate}_{kind}"

    def inputs_of(self, layer: int) -> int:
        """How many numbers a layer reads in each step: those of the input, or of all directions of the layer below."""
        return self.inputs if layer < self.directions else self.hidden * self.directions
