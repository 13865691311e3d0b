"""Pass: write a recurrence that is exactly ONNX's LSTM, GRU or RNN as one operator."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import DType, Graph, Node, Value, fixed
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import ADD, MULTIPLY, Concat, MatMul, Reduce, ReduceKind, Scan, Select, Slice

if TYPE_CHECKING:
    from prototrt.surgery.passes.onnx_cells import CellMatch

log = logging.getLogger(__name__)

MOST_GATES = 1024
"""Rows of a matrix that passes gates on which were computed outside: it has as many columns."""


@needs(Scan)
def fuse_lstms(graph: Graph) -> Graph:
    """Replace Scans whose body is a step of an LSTM, a GRU or a plain RNN by ONNX's operator.

    Before: ``s = Add(MatMul(x, const W), const b)``, ``h, c, y = Scan[LSTM step](h0, c0, s)``
    After:  ``h, c, y = FusedLSTM(h0, c0, x, const W, const R, const b)``
    Other gates s are passed on by a unit matrix. With T = 1, cont multiplies the states before the operator; a constant
    cont cuts the steps into stretches, and each has an operator. Lengths become those of the operator, and a Select
    gives the steps after a stream's end the state that they hold.
    Left alone: cells that ONNX's operators do not have, and a cont of several steps that is an input. The user asked
    for operators, so a warning says why for each layer.
    """
    return _fuse(graph, _Operators(warns=True))


@needs(Scan)
def fuse_forward_lstms(graph: Graph) -> Graph:
    """``fuse_lstms`` for a program that reads an LSTM well if it runs forwards and whole, as OpenCV 5.0 does.

    Before: ``h, c, y = Scan[LSTM step](h0, c0, Add(MatMul(x, const W), const b))``
    After:  ``h, c, y = FusedLSTM(h0, c0, x, const W, const R, const b)``
    Left alone: what ``fuse_lstms`` leaves alone, and all other operators. Another pass writes these Scans out.
    """
    return _fuse(graph, _Operators(_not_forward_lstm))


@needs(Scan)
def fuse_whole_cells(graph: Graph) -> Graph:
    """``fuse_lstms`` for the modules LSTM, GRU and RNN of PyTorch, whose states have an axis of layers.

    Before: ``h, c, y = Scan[LSTM step](h0, c0, Add(MatMul(x, const W), const b))``
    After:  ``h, c, y = FusedLSTM(Reshape(h0), Reshape(c0), x, const W, const R, const b)``, and h and c reshaped
    Left alone: what ``fuse_lstms`` leaves alone, lengths, gates that are computed outside, a GRU that resets before its
    product, and an RNN with another activation than tanh and ReLU.
    """
    return _fuse(graph, _Operators(_no_module, takes_gates=False, has_layers=True))


@dataclass(frozen=True, slots=True)
class _Operators:
    """What a program's operators are like.

    ``refusal`` says why one does not fit. ``takes_gates``: a unit matrix may pass gates on. ``has_layers``: states are
    (1, N, H). ``warns``: a warning says why a layer stays a Scan.
    """

    refusal: Callable[[CellMatch], str | None] = lambda match: None
    takes_gates: bool = True
    has_layers: bool = False
    warns: bool = False


def _not_forward_lstm(match: CellMatch) -> str | None:
    from prototrt.surgery.recurrent.fused_cells import FusedLSTM

    is_whole = match.valid is None and not match.stretches
    is_plain = isinstance(match.op, FusedLSTM) and not match.op.reverse and is_whole
    return None if is_plain else "it does not run forwards"


def _no_module(match: CellMatch) -> str | None:
    from prototrt.surgery.recurrent.fused_cells import FusedGRU, FusedRNN

    other_gru = isinstance(match.op, FusedGRU) and not match.op.resets_after
    other_rnn = isinstance(match.op, FusedRNN) and match.op.activation not in ("Tanh", "Relu")
    return "PyTorch has no module for it" if match.valid is not None or other_gru or other_rnn else None


def _fuse(graph: Graph, operators: _Operators) -> Graph:
    # Imported where it is needed: the lists of passes are read for every net, this one runs for few.
    from prototrt.surgery.passes.onnx_cells import match_of

    writers = graph.writers()
    build = Builder(names_in(graph))
    for node in graph.nodes:
        if not isinstance(node.op, Scan):
            build.nodes.append(node)
            continue
        match = match_of(node, node.op, writers)
        reason = match if isinstance(match, str) else operators.refusal(match)
        if reason is None and not isinstance(match, str):
            reason = _add_operator(build, node, node.op, match, writers, operators)
        if reason is not None:
            build.nodes.append(node)
            if operators.warns:
                log.warning("%s: stays a Scan: %s", node.origin, reason)
    return graph.with_nodes(build.nodes)


def _add_operator(
    build: Builder,
    node: Node,
    scan: Scan,
    match: CellMatch,
    writers: Mapping[Value, Node],
    operators: _Operators,
) -> str | None:
    """Add the operator that replaces a Scan, or say why it cannot be."""
    read = scan.named_inputs(node.inputs)
    gates = _affine_input(match.gates, writers)
    if gates is None and not operators.takes_gates:
        return "its gates are computed outside"
    gates = gates or _gates_from_outside(match.gates)
    if gates is None:
        return f"its gates are computed outside, and more than {MOST_GATES} cannot be passed on"
    since, build.origin = len(build.nodes), node.origin
    x, weights, bias = gates
    states = [_reset(build, state, match.delta) for state in read.states]
    recurrent, *further = (build.constant(array, "recurrent") for array in match.weights)
    lengths = [] if match.valid is None else [_lengths(build, match.valid)]
    if operators.has_layers:
        states = [build.reshape(state, (1, *state.shape), hint="layers") for state in states]
    *last, y = _operators(build, match, states, x, [weights, recurrent, bias, *further, *lengths])
    if operators.has_layers:
        last = [build.reshape(state, state.shape[1:], hint="state") for state in last]
    if match.valid is not None and len(node.outputs) > len(last):
        held = states[0] if scan.reverse else last[0]
        y = build.add(Select(), match.valid, y, build.reshape(held, (1, *held.shape)), hint="held")
    for result, target in zip([*last, y], node.outputs, strict=False):
        build.write(result, target, since)
    return None


def _operators(
    build: Builder, match: CellMatch, states: Sequence[Value], x: Value, others: Sequence[Value]
) -> Sequence[Value]:
    """The operator, or one for each stretch of steps: the last states, and h of all steps."""
    if not match.stretches:
        return build.add_all(match.op, *states, x, *others, hint="fused")
    parts: dict[int, Value] = {}
    for stretch in match.stretches:
        if stretch.is_new:
            sizes = [[fixed(dim, "a size of the state") for dim in each.shape] for each in states]
            zeros = [np.zeros(size, each.dtype.numpy) for size, each in zip(sizes, states, strict=True)]
            states = [build.constant(zero, "zero") for zero in zeros]
        is_whole = len(match.stretches) == 1
        part = x if is_whole else build.add(Slice(0, stretch.first, stretch.size), x, hint="stretch")
        *states, parts[stretch.first] = build.add_all(match.op, *states, part, *others, hint="fused")
    in_order = [parts[first] for first in sorted(parts)]
    y = in_order[0] if len(in_order) == 1 else build.add(Concat(0), *in_order, hint="stretches")
    return [*states, y]


def _reset(build: Builder, state: Value, delta: Value | None) -> Value:
    """A state times cont, for the one step that there is."""
    if delta is None:
        return state
    return build.add(MULTIPLY, state, build.reshape(delta, delta.shape[1:], hint="delta"), hint="reset")


def _lengths(build: Builder, valid: Value) -> Value:
    """The number of steps (N,) of each stream."""
    counted = build.add(Reduce(ReduceKind.SUM, (0,), keep=False), build.cast(valid, DType.INT32))
    return build.reshape(counted, counted.shape[:1], hint="lengths")


def _gates_from_outside(gates: Value) -> tuple[Value, Value, Value] | None:
    """Gates (T, N, G H) that were computed outside, a unit matrix, and no bias."""
    rows = fixed(gates.shape[-1], "the number of gates")
    if rows > MOST_GATES:
        return None
    unit, bias = (
        Value(f"{gates.name}_{name}", gates.dtype, array.shape, array, is_surgical=True)
        for name, array in (("unit", np.eye(rows, dtype=np.float32)), ("bias", np.zeros(rows, np.float32)))
    )
    return gates, unit, bias


def _affine_input(sequence: Value, writers: Mapping[Value, Node]) -> tuple[Value, Value, Value] | None:
    """x (T, N, D), W (4H, D) and b (4H,) if a sequence is ``x W^T + b``; otherwise None.

    The sequence may be a part of a product that both directions share.
    """
    total, first = writers.get(sequence), 0
    if total is not None and isinstance(total.op, Slice) and total.op.axis == 2:
        if not isinstance(total.op.start, int):
            return None
        first, total = total.op.start, writers.get(total.inputs[0])
    if total is None or total.op != ADD or total.inputs[0] not in writers:
        return None
    product, bias = writers[total.inputs[0]], total.inputs[1]
    if product.op != MatMul(transpose_b=True) or bias.data is None or product.inputs[1].data is None:
        return None
    x, weights = product.inputs
    rows = total.outputs[0].shape[-1]
    if bias.data.size != rows or weights.data is None or weights.data.size != rows * weights.data.shape[-1]:
        return None
    own = slice(first, first + fixed(sequence.shape[-1], "the number of gates"))
    matrix, row = weights.data.reshape(weights.data.shape[-2:])[own], bias.data.reshape(-1)[own]
    return (x, replace(weights, shape=matrix.shape, data=matrix), replace(bias, shape=row.shape, data=row))
