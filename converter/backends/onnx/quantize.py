"""Lowerings of numbers of 8 bits."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.onnx.api import ELEMENT_TYPES, FLOAT8_OPSET
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array, DType
from prototrt.surgery.ops import Dequantize, Quantize

_SCALES_OF_AN_AXIS = 13


@lowers(Quantize)
def quantize(model: OnnxModel, op: Quantize, x: Tensor, scale: Array) -> list[str]:
    """The type of the zero point says what to quantize to, or from opset 21 on an attribute.

    Float16 is quantized from float32, although operators read it from opset 19 on: onnxruntime up to 1.29 cuts float16
    off instead of rounding it. Plans that TensorRT makes of the model are the same.
    """
    axis = _axis(model, op.axis)
    if op.to is DType.FLOAT8:
        model.require_opset(FLOAT8_OPSET, "numbers of float8 as this model has them")
        return [model.add("QuantizeLinear", x, model.array(scale), output_dtype=ELEMENT_TYPES[op.to], **axis)]
    numbers = x.name
    if x.dtype is DType.FLOAT16:
        numbers, scale = model.add("Cast", x, to=ELEMENT_TYPES[DType.FLOAT32]), scale.astype(np.float32)
    return [
        model.add("QuantizeLinear", numbers, model.array(scale), _zero_point(model, op.to, scale), **axis)
    ]


@lowers(Dequantize)
def dequantize(model: OnnxModel, op: Dequantize, x: Tensor | Array, scale: Array) -> list[str]:
    """With a zero point: onnxruntime up to 1.23 takes one that is left out for uint8 where it moves a Transpose."""
    numbers, dtype = (x, x.dtype) if isinstance(x, Tensor) else (model.array(x), DType.of(x.dtype))
    around = DType.of(scale.dtype)
    is_cast = around is DType.FLOAT16
    scaled = [numbers, model.array(scale.astype(np.float32) if is_cast else scale)]
    if dtype is DType.INT8:
        scaled.append(_zero_point(model, dtype, scale))
    result = model.add("DequantizeLinear", *scaled, **_axis(model, op.axis))
    return [model.add("Cast", result, to=ELEMENT_TYPES[around]) if is_cast else result]


def _zero_point(model: OnnxModel, dtype: DType, scale: Array) -> str:
    return model.array(np.zeros(scale.shape, dtype.numpy))


def _axis(model: OnnxModel, axis: int | None) -> dict[str, int]:
    if axis is None:
        return {}
    model.require_opset(_SCALES_OF_AN_AXIS, "scales for each channel")
    return {"axis": axis}
