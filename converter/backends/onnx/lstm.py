"""ONNX's LSTM, GRU and RNN, for a recurrence that is exactly one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototrt.converter.backends.onnx.axes import squeeze, unsqueeze
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.passes.onnx_cells import FusedCell, FusedGRU, FusedLSTM, FusedRNN
from prototrt.surgery.recurrent.gates import reordered


@lowers(FusedLSTM)
def fused_lstm(
    model: OnnxModel,
    op: FusedLSTM,
    h: Tensor,
    c: Tensor,
    x: Tensor,
    w: Array,
    r: Array,
    b: Array,
    lengths: Tensor | None = None,
) -> list[str]:
    return _operator(model, "LSTM", op, [h, c], x, [w, r, b, np.zeros_like(b)], lengths)


@lowers(FusedGRU)
def fused_gru(
    model: OnnxModel,
    op: FusedGRU,
    h: Tensor,
    x: Tensor,
    w: Array,
    r: Array,
    b: Array,
    recurrent_bias: Array,
    lengths: Tensor | None = None,
) -> list[str]:
    rows = [w, r, b, recurrent_bias]
    return _operator(model, "GRU", op, [h], x, rows, lengths, linear_before_reset=int(op.resets_after))


@lowers(FusedRNN)
def fused_rnn(
    model: OnnxModel,
    op: FusedRNN,
    h: Tensor,
    x: Tensor,
    w: Array,
    r: Array,
    b: Array,
    lengths: Tensor | None = None,
) -> list[str]:
    rows = [w, r, b, np.zeros_like(b)]
    return _operator(model, "RNN", op, [h], x, rows, lengths, activations=[op.activation])


def _operator(
    model: OnnxModel,
    kind: str,
    op: FusedCell,
    states: Sequence[Tensor],
    x: Tensor,
    rows: Sequence[Array],
    lengths: Tensor | None,
    **attributes: Any,
) -> list[str]:
    """ONNX has an order of gates of its own, an axis of directions, and two biases in one."""
    w, r, *biases = (reordered(array, kind, "caffe", "onnx") for array in rows)
    weights = [model.array(array[None]) for array in (w, r, np.concatenate(biases))]
    first = [unsqueeze(model, state, 0) for state in states]
    direction = "reverse" if op.reverse else "forward"
    y, *last = model.add_all(
        kind,
        [x, *weights, "" if lengths is None else lengths, *first],
        1 + len(states),
        hidden_size=op.hidden,
        direction=direction,
        **attributes,
    )
    return [*(squeeze(model, state, 0) for state in last), squeeze(model, y, 1)]
