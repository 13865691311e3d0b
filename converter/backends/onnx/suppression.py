"""Lowering of suppression to ONNX's NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.onnx.api import ELEMENT_TYPES
from prototrt.converter.backends.onnx.axes import squeeze, unsqueeze
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import DType, fixed
from prototrt.surgery.ops import NonMaxSuppression


@lowers(NonMaxSuppression)
def non_max_suppression(model: OnnxModel, op: NonMaxSuppression, boxes: Tensor, chosen: Tensor) -> list[str]:
    """Ranks replace scores, so that ONNX keeps the order of the list. Boxes that are not candidates have 0."""
    lists, size = (fixed(dim, "the number of boxes") for dim in chosen.shape)
    ranks = model.array(np.arange(size, 0, -1, dtype=np.float32)[None])
    scores = model.add("Where", chosen, ranks, model.scalar(0, DType.FLOAT32))
    rows = model.add(
        "NonMaxSuppression",
        boxes,
        unsqueeze(model, scores, 1),
        model.integers(size),
        model.array(np.array([op.threshold], np.float32)),
        model.array(np.zeros(1, np.float32)),
    )
    count = model.add("Slice", model.add("Shape", rows), model.integers(0), model.integers(1))
    ones = model.add("Expand", model.scalar(1, DType.FLOAT32), count)
    nothing = model.array(np.zeros((lists, 1, size), np.float32))
    kept = squeeze(model, model.add("ScatterND", nothing, rows, ones), 1)
    return [model.add("Cast", kept, to=ELEMENT_TYPES[DType.BOOL])]
