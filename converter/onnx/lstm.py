"""ONNX's LSTM, for a recurrence that is exactly that."""

from __future__ import annotations

import numpy as np

from prototrt.converter.onnx.axes import squeezed, unsqueezed
from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.passes.fuse_lstms import FusedLSTM
from prototrt.surgery.recurrent.gates import reordered


@lowers(FusedLSTM)
def fused_lstm(
    model: OnnxModel, op: FusedLSTM, h: Tensor, c: Tensor, x: Tensor, *weights: Array
) -> list[str]:
    """ONNX's gates are i, o, f, g; it needs an axis of directions, and two biases, one of them 0."""
    w, r, b = (reordered(array, "LSTM", "caffe", "onnx") for array in weights)
    bias = np.concatenate([b, np.zeros_like(b)])[None]
    start = [unsqueezed(model, state, 0) for state in (h, c)]
    parts = [model.array(array[None]) for array in (w, r)]
    direction = "reverse" if op.reverse else "forward"
    y, h_last, c_last = model.add_all(
        "LSTM", [x, *parts, model.array(bias), "", *start], 3, hidden_size=op.hidden, direction=direction
    )
    steps = squeezed(model, y, 1)
    return [squeezed(model, h_last, 0), squeezed(model, c_last, 0), steps]
