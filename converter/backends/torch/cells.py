"""Modules LSTM, GRU and RNN of torch.nn: how they are made and called, and their arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from prototrt.surgery.ir import Array, Node, Value
from prototrt.surgery.passes.onnx_cells import FusedCell, FusedGRU, FusedLSTM, FusedRNN
from prototrt.surgery.recurrent.gates import reordered


def is_cell(node: Node) -> bool:
    return isinstance(node.op, FusedCell)


def constructor(node: Node) -> str:
    """The expression that makes the module."""
    op, width = _op(node), node.inputs[_op(node).states].shape[-1]
    if isinstance(op, FusedRNN) and op.activation == "Relu":
        return f'nn.RNN({width}, {op.hidden}, nonlinearity="relu")'
    return f"nn.{_kind(op)}({width}, {op.hidden})"


def arrays(node: Node, reordered_before: dict[object, Array]) -> Mapping[str, Array]:
    """Its arrays by PyTorch's names. Caffe's LSTM and RNN have one bias, and the second is zeros.

    An array that is in ``reordered_before`` stays the same one: layers may share it.
    """
    op = _op(node)
    inputs, recurrent, bias, *further = (value.array for value in node.inputs[op.states + 1 :])
    rows = {
        "weight_ih_l0": inputs,
        "weight_hh_l0": recurrent,
        "bias_ih_l0": bias,
        **dict(zip(["bias_hh_l0"], further, strict=False)),
    }
    for array in rows.values():
        if place_of(array) not in reordered_before:
            reordered_before[place_of(array)] = reordered(array, _kind(op), "caffe", "pytorch")
    own = {name: reordered_before[place_of(array)] for name, array in rows.items()}
    return {**own, "bias_hh_l0": own.get("bias_hh_l0", np.zeros_like(bias))}


def place_of(array: Array) -> object:
    """Where an array lies: the same for layers that share it."""
    return array.__array_interface__["data"][0], array.shape, array.strides


def weights_of(node: Node) -> tuple[Value, ...]:
    """What two calls of one module have in common."""
    return node.inputs[_op(node).states + 1 :]


def call(node: Node, module: str, text: Callable[[Value], str]) -> str:
    """The call. States that are zeros are left out."""
    op = _op(node)
    states, x = node.inputs[: op.states], text(node.inputs[op.states])
    read = [f"{x}.flip(0)" if op.reverse else x]
    if not all(value.data is not None and not value.array.any() for value in states):
        texts = [text(value) for value in states]
        read.append(f"({', '.join(texts)})" if len(texts) > 1 else texts[0])
    return f"{module}({', '.join(read)})"


def targets(node: Node, names: Sequence[str]) -> str:
    """The left side of the call, for the names of the last states and of h of all steps."""
    *states, y = names
    if all(name == "_" for name in states):
        return f"{y}, _"
    return f"{y}, ({', '.join(states)})" if len(states) > 1 else f"{y}, {states[0]}"


def is_reverse(node: Node) -> bool:
    """Whether steps are computed, and h is returned, from the last to the first."""
    return _op(node).reverse


def _op(node: Node) -> FusedCell:
    assert isinstance(node.op, FusedCell)
    return node.op


def _kind(op: FusedCell) -> str:
    return {FusedLSTM: "LSTM", FusedGRU: "GRU", FusedRNN: "RNN"}[type(op)]
