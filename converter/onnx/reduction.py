"""Lowerings of reductions and of the few largest elements."""

from __future__ import annotations

from prototrt.converter.onnx.api import ELEMENT_TYPES
from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.converter.onnx.shape import reversed_along
from prototrt.surgery.ir import DType, fixed
from prototrt.surgery.ops import Reduce, ReduceKind, TopK

_AXES_ARE_INPUTS = 18
"""The opset since which the axes are an input of every reduction, as they were of ReduceSum before."""


@lowers(Reduce)
def reduce(model: OnnxModel, op: Reduce, x: Tensor) -> list[str]:
    kind = f"Reduce{op.kind.value.title()}"
    if op.kind is ReduceKind.SUM or model.dialect.opset >= _AXES_ARE_INPUTS:
        return [model.add(kind, x, model.integers(*op.axes), keepdims=int(op.keep))]
    return [model.add(kind, x, axes=op.axes, keepdims=int(op.keep))]


@lowers(TopK)
def top_k(model: OnnxModel, op: TopK, x: Tensor) -> list[str]:
    """ONNX takes the first of equal elements; over the axis back to front that is the last."""
    seen = x if op.first_of_equals else reversed_along(model, x, op.axis)
    values, places = model.add_all("TopK", [seen, model.integers(op.count)], 2, axis=op.axis)
    if not op.first_of_equals:
        places = model.add("Sub", model.integers(fixed(x.shape[op.axis], "an axis") - 1), places)
    return [values, model.add("Cast", places, to=ELEMENT_TYPES[DType.INT32])]
