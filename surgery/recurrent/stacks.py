"""The structure of a recurrent net: layers with one or two directions, their weights, cells, readouts and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Dim, Op, Shape, computable, fixed
from prototrt.surgery.ops import Concat, Gather, Reduce, ReduceKind, Select
from prototrt.surgery.recurrent.cells import Cell, LSTMCell
from prototrt.surgery.recurrent.gru import GRUCell
from prototrt.surgery.recurrent.weights import DirectionWeights


def packed_shapes(sizes: Sequence[int], streams: Dim) -> list[Shape]:
    """The shapes of the arrays that hold a state with these sizes in the directions of a stack.

    One array (directions, N, size), layer by layer and forward before backward, as in cuDNN; if
    sizes differ, an array (1, N, size) for each direction.
    """
    if len(set(sizes)) == 1:
        return [(len(sizes), streams, sizes[0])]
    return [(1, streams, size) for size in sizes]


class StackStates:
    """The states of a stack while it runs: cut from arrays of ``packed_shapes``, and concatenated at the end."""

    def __init__(
        self,
        build: Builder,
        sizes: Mapping[str, Sequence[int]],
        initial: Sequence[Sequence[Value]],
        streams: Dim,
    ) -> None:
        self.build, self.streams = build, streams
        self.sizes = list(sizes.values())
        self.initial = initial
        self.last: list[Sequence[Value]] = []
        """The final states (N, size) of each direction that has run."""
        self._places: dict[int, Value] = {}

    def before(self) -> list[Value]:
        """The initial states (N, size) of the next direction."""
        index = len(self.last)
        return [
            self._cut(arrays, sizes, index) for arrays, sizes in zip(self.initial, self.sizes, strict=True)
        ]

    def pack(self) -> list[list[Value]]:
        """The arrays of each state after the last step."""
        each_state = zip(*self.last, strict=True)
        return [self._join(last, sizes) for last, sizes in zip(each_state, self.sizes, strict=True)]

    def _cut(self, arrays: Sequence[Value], sizes: Sequence[int], index: int) -> Value:
        if len(arrays) > 1 or len(sizes) == 1:
            return self.build.reshape(arrays[index], (self.streams, sizes[index]), hint="initial")
        if index not in self._places:
            self._places[index] = self.build.constant(np.array(index, np.int32), "place")
        return self.build.add(Gather(), arrays[0], self._places[index], hint="initial")

    def _join(self, last: Sequence[Value], sizes: Sequence[int]) -> list[Value]:
        shapes = packed_shapes(sizes, self.streams)
        if len(last) > 1 and len(shapes) == 1 and isinstance(self.streams, int):
            rows = self.build.add(Concat(0), *last, hint="last_rows")
            return [self.build.reshape(rows, shapes[0], hint="last")]
        each = [
            self.build.reshape(state, (1, self.streams, size), hint="last")
            for state, size in zip(last, sizes, strict=True)
        ]
        return each if len(each) == len(shapes) else [self.build.add(Concat(0), *each, hint="last_states")]


def zeros(build: Builder, x: Value, shape: Shape) -> Value:
    """Zeros (directions, N, ...), with the N of x (T, N, ...)."""
    sizes = tuple(dim for dim in shape if isinstance(dim, int))
    if len(sizes) == len(shape):
        return build.constant(np.broadcast_to(np.float32(0), sizes), "initial")
    column = zero_column(build, x, len(shape))
    return build.broadcast(column, tuple(computable(dim, "a size of the state") for dim in shape), "initial")


def zero_column(build: Builder, x: Value, rank: int = 3) -> Value:
    """Zeros (1, N, 1, ...) with the N of x (T, N, ...), which may vary. The contents of x do not matter."""
    others = tuple(axis for axis in range(len(x.shape)) if axis != 1)
    sums = build.add(Reduce(ReduceKind.SUM, others), x, hint="streams")
    column = build.reshape(sums, (1, x.shape[1], *(1,) * (rank - 2)), hint="streams")
    never = build.constant(np.zeros((1,) * rank, np.bool_), "never")
    return build.add(Select(), never, column, build.scalar(0, rank), hint="zeros")


@dataclass(frozen=True, slots=True, eq=False)
class InputWeights:
    """The weights of x, for all steps at once: W (R, D), b (R,); one matrix (R, S) for each static input."""

    matrix: Value
    bias: Value
    statics: tuple[Value, ...] = ()


class Readout(Protocol):
    """How to compute the top of a direction from the outputs of its cell, for all steps at once."""

    def width(self, cell: Cell) -> int:
        """How many numbers the top has for each step."""

    def __call__(self, build: Builder, outputs: Sequence[Value]) -> Value:
        """The top (T, N, width)."""


@dataclass(frozen=True, slots=True)
class StateReadout:
    """The top is the state h."""

    def width(self, cell: Cell) -> int:
        return cell.width

    def __call__(self, build: Builder, outputs: Sequence[Value]) -> Value:
        return outputs[0]


@dataclass(frozen=True, slots=True, eq=False)
class SideReadout:
    """The top is ``[h, W m]`` with W (Q, H), for a cell whose second output is m."""

    weights: Value

    def width(self, cell: Cell) -> int:
        return cell.width + _rows(self.weights)

    def __call__(self, build: Builder, outputs: Sequence[Value]) -> Value:
        h, m = outputs
        to_the_side = build.product(m, self.weights, hint="side_projection")
        return build.add(Concat(2), h, to_the_side, hint="projections")


@dataclass(frozen=True, slots=True, eq=False)
class DenseReadout:
    """The top is ``activation(W h + b)`` with W (R, H)."""

    weights: Value
    bias: Value
    activation: Op

    def width(self, cell: Cell) -> int:
        return _rows(self.weights)

    def __call__(self, build: Builder, outputs: Sequence[Value]) -> Value:
        product = outputs[0].product(self.weights).named("output_product")
        total = (product + build.aligned(self.bias, 3)).named("output_sum")
        return total.apply(self.activation).named("output")


def _rows(weights: Value) -> int:
    return fixed(weights.shape[0], "the number of rows")


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """A layer in one direction over the steps; ``reverse`` reads from the last step to the first."""

    inputs: InputWeights
    cell: Cell
    readout: Readout = StateReadout()
    reverse: bool = False

    @property
    def width(self) -> int:
        """How many numbers its top has for each step."""
        return self.readout.width(self.cell)


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers of cells of one kind. Each reads the tops of all directions of the layer below.

    ``layers``: the directions of each, forward before backward. ``adds_up``: the tops of the directions
    of a layer are added, not concatenated. ``resets_input``: cont also multiplies ``W x + b``.
    ``holds_past_end``: after a stream's end, the top is that of its last step, not 0.
    """

    layers: Sequence[Sequence[Direction]]
    adds_up: bool = False
    resets_input: bool = False
    holds_past_end: bool = False

    @cached_property
    def state_sizes(self) -> dict[str, list[int]]:
        """The size of each state in each direction: layer by layer, forward before backward."""
        cells = [direction.cell for layer in self.layers for direction in layer]
        return {name: [cell.states[name] for cell in cells] for name in cells[0].states}

    def state_shapes(self, streams: Dim) -> dict[str, list[Shape]]:
        """The shapes of the arrays that hold each state."""
        return {name: packed_shapes(sizes, streams) for name, sizes in self.state_sizes.items()}


def direction_of(build: Builder, weights: DirectionWeights, *, reverse: bool) -> Direction:
    """A plain LSTM, or a GRU that resets after the product, as in PyTorch and cuDNN."""
    recurrent = build.constant(weights.h, "w_h")
    cell: Cell
    if weights.cell == "LSTM":
        cell, bias = LSTMCell(recurrent), weights.bias
    else:
        cell = GRUCell((recurrent,), build.constant(weights.h_bias[None], "b_h"))
        bias = weights.x_bias
    inputs = InputWeights(build.constant(weights.x, "w_x"), build.constant(bias, "b_x"))
    return Direction(inputs, cell, reverse=reverse)
