"""Lowerings of reductions and of the few largest elements."""

from __future__ import annotations

from prototrt.converter.backends.onnx.api import ELEMENT_TYPES
from prototrt.converter.backends.onnx.axes import reduce_axes
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.converter.backends.onnx.shape import reverse_axis
from prototrt.surgery.ir import DType, computable
from prototrt.surgery.ops import Reduce, TopK


@lowers(Reduce)
def reduce(model: OnnxModel, op: Reduce, x: Tensor) -> list[str]:
    return [reduce_axes(model, op.kind, x, op.axes, keep=op.keep)]


@lowers(TopK)
def top_k(model: OnnxModel, op: TopK, x: Tensor) -> list[str]:
    """ONNX takes the first of equal elements; over the axis back to front that is the last."""
    seen = x if op.first_of_equals else reverse_axis(model, x, op.axis)
    values, places = model.add_all("TopK", [seen, model.integers(op.count)], 2, axis=op.axis)
    if not op.first_of_equals:
        places = model.add("Sub", model.size(computable(x.shape[op.axis], "an axis") - 1), places)
    return [values, model.add("Cast", places, to=ELEMENT_TYPES[DType.INT32])]
