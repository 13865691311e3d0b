"""Lowering of numbers from sizes to ONNX's Range."""

from __future__ import annotations

from prototrt.converter.backends.onnx.api import ELEMENT_TYPES
from prototrt.converter.backends.onnx.axes import squeeze
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel
from prototrt.surgery.ir import DType
from prototrt.surgery.ops import Count


@lowers(Count)
def count(model: OnnxModel, op: Count) -> list[str]:
    ends = (op.first, op.first + op.size * op.step, op.step)
    counted = model.add("Range", *(squeeze(model, model.size(end), 0) for end in ends))
    return [model.add("Cast", counted, to=ELEMENT_TYPES[DType.INT32])]
