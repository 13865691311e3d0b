"""A direction of a stack from its trained weights, for nets without further options of the cell."""

from __future__ import annotations

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.recurrent.cells import Cell, LSTMCell
from prototrt.surgery.recurrent.gru import GRUCell
from prototrt.surgery.recurrent.stacks import Direction, InputWeights
from prototrt.surgery.recurrent.weights import DirectionWeights


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
