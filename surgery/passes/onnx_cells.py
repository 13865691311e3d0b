"""The Scans whose body equals a step of ONNX's LSTM, GRU or RNN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Node, Value, bodies, fixed, wiring
from prototrt.surgery.ops import LeakyReLU, Scan, Sigmoid, Slice, TanH, While
from prototrt.surgery.passes.hoist_invariants import hoist_invariants
from prototrt.surgery.recurrent.cells import Cell, LSTMCell, RNNCell, RNNForm, scan
from prototrt.surgery.recurrent.fused_cells import FusedCell, FusedGRU, FusedLSTM, FusedRNN
from prototrt.surgery.recurrent.gru import GRUCell
from prototrt.surgery.recurrent.resets import GuardedCell


@dataclass(frozen=True, slots=True)
class CellMatch:
    """The operator that equals a Scan, and its recurrent weights: R (G H, H), and for a GRU a bias (G H,).

    ``gates`` are (T, N, G H). ``delta`` multiplies the states of one step, ``valid`` is true up to a stream's end, and
    ``stretches`` are the runs of steps that a constant cont makes, in the order in which they are computed.
    """

    op: FusedCell
    weights: Sequence[Array]
    gates: Value
    delta: Value | None
    valid: Value | None
    stretches: Sequence[Stretch] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps from ``first`` on without a reset between them; ``is_new``: the states are zero before them."""

    first: int
    size: int
    is_new: bool


MOST_STRETCHES = 32
"""Each has an operator of its own."""
RESETS = Worded(
    "cont resets its states, and ONNX's operators have no reset: use {} if every step continues, or {} with T = 1,"
    " or let the net itself state where at most {} sequences start, in all streams at once",
    Option("cont", "drop"),
    Option("shapes"),
    MOST_STRETCHES,
)
_ACTIVATIONS = {"Tanh": TanH(), "Sigmoid": Sigmoid(), "Relu": LeakyReLU()}


def match_of(node: Node, op: Scan, writers: Mapping[Value, Node]) -> CellMatch | str:
    """The operator that equals a Scan, or the reason why there is none."""
    if reason := _other_types(node, op):
        return reason
    read = op.named_inputs(node.inputs)
    gates, marks = _gates(read.sequences, writers)
    has_ends = bool(marks) and marks[-1].dtype is DType.BOOL
    delta = marks[0] if len(marks) > has_ends else None
    constants = [value for inner in op.body.nodes for value in inner.inputs if value.is_constant]
    flat = [replace(value, shape=value.shape[-2:]) for value in constants]
    for fused, cell in _candidates(flat, op.reverse):
        guarded = GuardedCell(cell, delta is not None, has_ends)
        if _fits(cell, read.states, gates) and _equals(op, guarded, [gates, *marks], read.states):
            stretches = () if delta is None or has_ends else _stretches(delta, op.reverse)
            if delta is not None and delta.shape[0] != 1 and not stretches:
                return RESETS
            delta, valid = None if stretches else delta, marks[-1] if has_ends else None
            return CellMatch(fused, _weights(fused, flat), gates, delta, valid, stretches)
    if len(read.states) == 2 and read.states[0].shape != read.states[1].shape:
        return "its LSTM has a projection, and ONNX's has none"
    return "its step has other equations than ONNX's LSTM, GRU and RNN"


def _stretches(delta: Value, reverse: bool) -> Sequence[Stretch]:
    """What a constant delta (T, N, H) cuts the steps into; nothing if it is not constant, or streams differ."""
    if delta.data is None:
        return ()
    rows = delta.array.reshape(len(delta.array), -1)
    if not np.isin(rows, (0, 1)).all() or (rows != rows[:, :1]).any():
        return ()
    steps = [*range(len(rows))][:: -1 if reverse else 1]
    starts = [place for place, step in enumerate(steps) if place == 0 or rows[step, 0] == 0]
    runs = [steps[start:end] for start, end in zip(starts, [*starts[1:], len(steps)], strict=True)]
    stretches = [Stretch(min(run), len(run), bool(rows[run[0], 0] == 0)) for run in runs]
    return stretches if len(stretches) <= MOST_STRETCHES else ()


def _gates(sequences: Sequence[Value], writers: Mapping[Value, Node]) -> tuple[Value, Sequence[Value]]:
    """The gates (T, N, G H), of which a GRU reads two parts that are cut out once; and the other sequences."""
    cuts = [each for each in sequences if each in writers and isinstance(writers[each].op, Slice)]
    sources = {writers[each].inputs[0] for each in cuts}
    widths = sum(fixed(each.shape[2], "the number of gates") for each in cuts)
    if len(cuts) == 2 and len(sources) == 1 and (source := sources.pop()).shape[2:] == (widths,):
        return source, [each for each in sequences if each not in cuts]
    return sequences[0], sequences[1:]


def _other_types(node: Node, op: Scan) -> str | None:
    """Why no operator can read what the Scan reads."""
    read = op.named_inputs(node.inputs)
    if any(isinstance(inner.op, (Scan, While)) for inner in op.body.nodes):
        return "there is another loop in its step"
    if read.invariants:
        return "its step reads the same value at all steps, which ONNX's operators cannot"
    if len(read.states) > 2 or not read.states:
        return f"its cell has {len(read.states)} states, and those of ONNX have 1 or 2"
    dtypes = {value.dtype for inner in op.body.nodes for value in (*inner.inputs, *inner.outputs)}
    if dtypes & {DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.FLOAT8}:
        return "its products and its states have different types, and ONNX's operators have one"
    if not read.sequences or any(len(value.shape) != 3 for value in read.sequences):
        return "its step has other axes than (N, D)"
    return None


def _candidates(constants: Sequence[Value], reverse: bool) -> Iterator[tuple[FusedCell, Cell]]:
    """The operators whose step has such constants, each with its cell."""
    sizes = [value.shape for value in constants]
    hidden = fixed(sizes[0][-1], "the number of hidden units") if sizes and sizes[0] else 0
    if sizes == [(4 * hidden, hidden)]:
        yield FusedLSTM(hidden, reverse), LSTMCell(constants[0])
    if sizes == [(hidden, hidden)]:
        for name, activation in _ACTIVATIONS.items():
            yield FusedRNN(hidden, reverse, name), RNNCell(constants[0], RNNForm(activation))
    if sizes == [(2 * hidden, hidden), (hidden, hidden)]:
        yield FusedGRU(hidden, reverse, resets_after=False), GRUCell(tuple(constants))
    if sizes == [(3 * hidden, hidden), (1, 3 * hidden)]:
        yield FusedGRU(hidden, reverse, resets_after=True), GRUCell((constants[0],), constants[1])


def _weights(op: FusedCell, constants: Sequence[Value]) -> Sequence[Array]:
    """R, and the further bias of a GRU."""
    arrays = [value.array.reshape(value.array.shape[-2:]) for value in constants]
    if not isinstance(op, FusedGRU):
        return arrays
    if op.resets_after:
        return [arrays[0], arrays[1].reshape(-1)]
    return [np.concatenate(arrays), np.zeros(3 * op.hidden, arrays[0].dtype)]


def _fits(cell: Cell, states: Sequence[Value], x: Value) -> bool:
    """Whether states and sequence have the cell's sizes."""
    rows = 4 if isinstance(cell, LSTMCell) else 3 if isinstance(cell, GRUCell) else 1
    sizes = [(*x.shape[1:2], size) for size in cell.states.values()]
    return [value.shape for value in states] == sizes and x.shape[2] == rows * cell.width


def _equals(op: Scan, cell: GuardedCell, sequences: Sequence[Value], states: Sequence[Value]) -> bool:
    """Whether a Scan's body equals a step of this cell, node by node, without what all steps share."""
    build = Builder()
    read = [
        [build.input(value.name, value.shape, value.dtype) for value in side] for side in (sequences, states)
    ]
    step = scan(build, cell, *read, reverse=op.reverse)
    alone = hoist_invariants(build.graph("", [*step.states, *step.outputs]))
    (plain,) = (body for node in alone.nodes for body in bodies(node.op))
    return wiring(op.body) == wiring(replace(plain, outputs=plain.outputs[: len(op.body.outputs)]))
