"""Lowerings of numbers of 8 bits."""

from __future__ import annotations

import numpy as np

from prototrt.converter.onnx.api import ELEMENT_TYPES
from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array, DType
from prototrt.surgery.ops import Dequantize, Quantize


@lowers(Quantize)
def quantize(model: OnnxModel, op: Quantize, x: Tensor, scale: Array) -> list[str]:
    """The type of the zero point says what to quantize to, or from opset 21 on an attribute."""
    if op.to is DType.FLOAT8:
        written = {"output_dtype": ELEMENT_TYPES[op.to]}
        return [model.add("QuantizeLinear", x, model.array(scale), **written, **_axis(op.axis))]
    zero_point = _zero_point(model, op.to, scale)
    return [model.add("QuantizeLinear", x, model.array(scale), zero_point, **_axis(op.axis))]


@lowers(Dequantize)
def dequantize(model: OnnxModel, op: Dequantize, x: Tensor | Array, scale: Array) -> list[str]:
    """With a zero point: onnxruntime up to 1.23 takes one that is left out for uint8 where it moves a Transpose."""
    numbers, dtype = (x, x.dtype) if isinstance(x, Tensor) else (model.array(x), DType.of(x.dtype))
    scaled = [numbers, model.array(scale)]
    if dtype is DType.INT8:
        scaled.append(_zero_point(model, dtype, scale))
    return [model.add("DequantizeLinear", *scaled, **_axis(op.axis))]


def _zero_point(model: OnnxModel, dtype: DType, scale: Array) -> str:
    return model.array(np.zeros(scale.shape, dtype.numpy))


def _axis(axis: int | None) -> dict[str, int]:
    return {} if axis is None else {"axis": axis}
