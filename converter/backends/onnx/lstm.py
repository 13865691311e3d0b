"""ONNX's LSTM, GRU and RNN, for a recurrence that is exactly one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.converter.backends.onnx.api import element_type
from prototrt.converter.backends.onnx.axes import squeeze, unsqueeze
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.recurrent.fused_cells import FusedCell, FusedGRU, FusedLSTM, FusedRNN
from prototrt.surgery.recurrent.gates import reordered


@lowers(FusedLSTM, FusedGRU, FusedRNN)
def fused_cell(model: OnnxModel, op: FusedCell, *inputs: Any) -> list[str]:
    """ONNX has an order of gates of its own, an axis of directions, and two biases in one."""
    states, (x, w, r, bias, *others) = inputs[: op.states], inputs[op.states :]
    lengths = others.pop() if others and isinstance(others[-1], Tensor) else ""
    rows = [w, r, bias, *(others or [np.zeros_like(bias)])]
    w, r, *biases = (reordered(array, op.kind, "caffe", "onnx") for array in rows)
    weights = [model.array(array[None]) for array in (w, r, np.concatenate(biases))]
    y, *last = model.add_all(
        op.kind,
        [x, *weights, lengths, *(unsqueeze(model, state, 0) for state in states)],
        1 + op.states,
        hidden_size=op.hidden,
        direction="reverse" if op.reverse else "forward",
        **_attributes(op),
    )
    after = [squeeze(model, state, 0) for state in last]
    if lengths:  # onnxruntime returns zeros for a stream without a step
        is_read = unsqueeze(model, model.add("Cast", lengths, to=element_type(np.dtype(np.bool_))), 1)
        after = [model.add("Where", is_read, *pair) for pair in zip(after, states, strict=True)]
    return [*after, squeeze(model, y, 1)]


def _attributes(op: FusedCell) -> dict[str, Any]:
    if isinstance(op, FusedGRU):
        return {"linear_before_reset": int(op.resets_after)}
    return {"activations": [op.activation]} if isinstance(op, FusedRNN) else {}
