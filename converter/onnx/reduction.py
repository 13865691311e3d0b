"""Lowerings of reductions and of the few largest elements."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.converter.onnx.api import ELEMENT_TYPES
from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.converter.onnx.shape import reversed_along
from prototrt.surgery.ir import DType, computable
from prototrt.surgery.ops import Reduce, ReduceKind, TopK

_AXES_ARE_INPUTS = 18
"""The opset since which the axes are an input of every reduction, as they were of ReduceSum before."""


@lowers(Reduce)
def reduce(model: OnnxModel, op: Reduce, x: Tensor) -> list[str]:
    return [reduced(model, op.kind, x, op.axes, keep=op.keep)]


def reduced(model: OnnxModel, kind: ReduceKind, x: Tensor | str, axes: Sequence[int], *, keep: bool) -> str:
    """A reduction over these axes, which stay with the size 1 if ``keep``."""
    name = f"Reduce{kind.value.title()}"
    if kind is ReduceKind.SUM or model.dialect.opset >= _AXES_ARE_INPUTS:
        return model.add(name, x, model.integers(*axes), keepdims=int(keep))
    return model.add(name, x, axes=axes, keepdims=int(keep))


@lowers(TopK)
def top_k(model: OnnxModel, op: TopK, x: Tensor) -> list[str]:
    """ONNX takes the first of equal elements; over the axis back to front that is the last."""
    seen = x if op.first_of_equals else reversed_along(model, x, op.axis)
    values, places = model.add_all("TopK", [seen, model.integers(op.count)], 2, axis=op.axis)
    if not op.first_of_equals:
        places = model.add("Sub", model.size(computable(x.shape[op.axis], "an axis") - 1), places)
    return [values, model.add("Cast", places, to=ELEMENT_TYPES[DType.INT32])]
