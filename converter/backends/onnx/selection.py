"""Lowerings that choose elements: by a condition, by an index, or by a mask."""

from __future__ import annotations

from prototrt.converter.backends.onnx.api import ELEMENT_TYPES
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import DType
from prototrt.surgery.ops import Compress, Gather, Scatter, Select


@lowers(Select)
def select(model: OnnxModel, op: Select, condition: Tensor, a: Tensor, b: Tensor) -> list[str]:
    if a.dtype is not DType.BOOL:
        return [model.add("Where", condition, a, b)]
    chosen = model.add("And", condition, a), model.add("And", model.add("Not", condition), b)
    return [model.add("Or", *chosen)]  # neither onnxruntime nor OpenCV has a Where of truth values


@lowers(Gather)
def gather(model: OnnxModel, op: Gather, table: Tensor, index: Tensor) -> list[str]:
    return [model.add("Gather", table, index, axis=0)]


@lowers(Scatter)
def scatter(model: OnnxModel, op: Scatter, x: Tensor, index: Tensor) -> list[str]:
    last = x.rank - 1
    before = [model.sizes(x, range(last))] if last else []  # OpenCV takes an empty vector for one of floats
    sizes = model.add("Concat", *before, model.size(op.size), axis=0)
    zeros = model.add("Expand", model.scalar(0, x.dtype), sizes)
    return [model.add("ScatterElements", zeros, index, x, axis=last)]


@lowers(Compress)
def compress(model: OnnxModel, op: Compress, x: Tensor, chosen: Tensor) -> list[str]:
    is_chosen = model.add("Cast", chosen, to=ELEMENT_TYPES[DType.BOOL])
    return [model.add("Compress", x, is_chosen, axis=0)]
