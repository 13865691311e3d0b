"""Modules LSTM, GRU and RNN of torch.nn: how they are made and called, and their arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from prototrt.converter.backends.torch.blobs import TableOfBlobs
from prototrt.surgery.ir import Array, Node, Value
from prototrt.surgery.ir.uniform_constants import memory_of
from prototrt.surgery.recurrent.fused_cells import FusedCell, FusedRNN
from prototrt.surgery.recurrent.gates import reordered


def is_cell(node: Node) -> bool:
    return isinstance(node.op, FusedCell)


def constructor(node: Node) -> str:
    """The expression that makes the module."""
    op, width = _op(node), node.inputs[_op(node).states].shape[-1]
    if isinstance(op, FusedRNN) and op.activation == "Relu":
        return f'nn.RNN({width}, {op.hidden}, nonlinearity="relu")'
    return f"nn.{op.kind}({width}, {op.hidden})"


def arrays(node: Node, reordered_before: dict[object, Array]) -> Mapping[str, Array]:
    """Its arrays by PyTorch's names. Caffe's LSTM and RNN have one bias, and the second is zeros.

    An array that is in ``reordered_before`` stays the same one: layers may share it.
    """
    rows, kind = _rows(node), _op(node).kind
    for array in rows.values():
        if memory_of(array) not in reordered_before:
            reordered_before[memory_of(array)] = reordered(array, kind, "caffe", "pytorch")
    own = {name: reordered_before[memory_of(array)] for name, array in rows.items()}
    return {**own, "bias_hh_l0": own.get("bias_hh_l0", np.zeros_like(rows["bias_ih_l0"]))}


def note_blobs(node: Node, module: str, arrays: Mapping[str, Array], table: TableOfBlobs) -> None:
    """Note the tensors of this module: a single bias is the sum of two."""
    for name in _rows(node):
        summands = [name] if name != "bias_ih_l0" or "bias_hh_l0" in _rows(node) else [name, "bias_hh_l0"]
        table.add(arrays[name], *(f"{module}.{each}" for each in summands))


def _rows(node: Node) -> dict[str, Array]:
    """The arrays in Caffe's order by PyTorch's names; two biases only where Caffe has two."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    weights = node.inputs[_op(node).states + 1 :]
    return {name: value.array for name, value in zip(names, weights, strict=False)}


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
