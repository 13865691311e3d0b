"""One step of a recurrence, after its matrix products: LSTMUnit and GRUUnit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import expect_whole_numbers, merge_sizes, misfit, operator_rule
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import GREATER, Select
from prototrt.surgery.recurrent.cells import lstm_unit


@operator_rule("LSTMUnit")
def lstm(
    build: Builder, operator: Operator, hidden: Value, cell: Value, gates: Value, *others: Value
) -> list[Value]:
    """``c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(g)``, ``h' = sigmoid(o) tanh(c')``.

    Becomes: Sigmoid, TanH, Multiply, Add; Greater and Select for lengths.
    Inputs: hidden and cell (1, N, H), gates (1, N, 4H) in the order i, f, o, g, seq_lengths
    (N,) unless ``sequence_lengths`` is 0, timestep (1,). A row past its length keeps its
    state, or loses it with ``drop_states``.
    """
    _expect_gates(operator, hidden, gates, 4, 2)
    if cell.shape != hidden.shape:
        raise misfit(operator, 1, cell, hidden.shape)
    forget = operator.arguments.number("forget_bias", 0.0)
    if forget:
        size = fixed(hidden.shape[-1], "the number of hidden units")
        parts = [np.broadcast_to(np.float32(each), (size,)) for each in (0, forget, 0, 0)]
        shifted = build.aligned(build.stacked(parts, "forget_bias"), len(gates.shape))
        gates = (gates + shifted).named("gates_forget_bias")
    c, h = lstm_unit(gates, cell)
    return mask_states(build, operator, [(h, hidden), (c, cell)], others)


@operator_rule("GRUUnit")
def gru(build: Builder, operator: Operator, hidden: Value, gates: Value, *others: Value) -> list[Value]:
    """``h' = u h + (1 - u) tanh(output)`` with ``u = sigmoid(update)``; reset has been applied before.

    Becomes: Sigmoid, TanH, Multiply, Add, Subtract; Greater and Select for lengths.
    Inputs: hidden (1, N, H), gates (1, N, 3H) in the order reset, update, output; seq_lengths
    and timestep as for LSTMUnit.
    """
    _expect_gates(operator, hidden, gates, 3, 1)
    axis, size = len(gates.shape) - 1, fixed(hidden.shape[-1], "the number of hidden units")
    u = gates.slice(axis, size, size).named("gate_update").sigmoid().named("update")
    new = gates.slice(axis, 2 * size, size).named("gate_output").tanh().named("new")
    h = (new + (u * (hidden - new).named("difference")).named("kept")).named("h")
    return mask_states(build, operator, [(h, hidden)], others)


def mask_states(
    build: Builder, operator: Operator, states: Sequence[tuple[Value, Value]], others: Sequence[Value]
) -> list[Value]:
    """The new states (each with the one before), except in rows whose sequence has ended."""
    expected = 2 if operator.arguments.flag("sequence_lengths", True) else 1
    _refuse_count(others, expected)
    if expected == 1:
        return [new for new, _ in states]
    lengths, timestep = others
    for index, value in enumerate(others, len(operator.bottoms) - 2):
        expect_whole_numbers(operator, value, index)
    rank, rows = len(states[0][0].shape), states[0][0].shape[-2]
    if merge_sizes(lengths.shape) != rows:
        raise misfit(operator, len(operator.bottoms) - 2, lengths, f"({rows},)")
    count, now = build.reshape(lengths, (rows,)), build.reshape(timestep, (1,))
    goes_on = build.aligned(build.add(GREATER, count, now, hint="goes_on"), rank, rank - 2)
    if operator.arguments.flag("drop_states"):
        nothing = build.scalar(0.0, rank)
        return [build.add(Select(), goes_on, new, nothing, hint="kept_or_0") for new, _ in states]
    return [build.add(Select(), goes_on, new, old, hint="kept_or_old") for new, old in states]


def _refuse_count(others: Sequence[Value], expected: int) -> None:
    """Raise ``NetError`` unless seq_lengths, where they are stated, and timestep follow the gates."""
    if len(others) != expected:
        names = "seq_lengths and timestep" if expected == 2 else "timestep"
        raise NetError(
            f"has {len(others)} inputs after the gates, expected {names}",
            because=f"sequence_lengths is {expected - 1}",
            fix=MEND_ARGUMENTS,
        )


def _expect_gates(operator: Operator, hidden: Value, gates: Value, count: int, index: int) -> None:
    size = fixed(hidden.shape[-1], "the number of hidden units")
    expected = (*hidden.shape[:-1], count * size)
    if gates.shape != expected:
        because = f'"{operator.bottom_blob(0)}" has the shape {hidden.shape}'
        raise misfit(operator, index, gates, expected, because)
