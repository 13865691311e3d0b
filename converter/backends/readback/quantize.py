"""To numbers of 8 bits and back, with one scale for the tensor or one for each channel."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates

_LARGEST_FP8 = 448


@evaluates("QUANTIZE")
def quantize(layer: Layer) -> Evaluate:
    """INT8: rounded to nearest, ties to even, and clamped to -128..127. FP8: clamped to -448..448, then rounded."""
    axis, kind = layer.axis, layer.get_output(0).dtype.name

    def evaluate(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        y = x / _align(scale, zero_point, x, axis)
        if kind == "FP8":
            return np.clip(y, -_LARGEST_FP8, _LARGEST_FP8)  # the tensor rounds what it holds
        return np.clip(np.rint(y), -128, 127).astype(np.int8)

    return evaluate


@evaluates("DEQUANTIZE")
def dequantize(layer: Layer) -> Evaluate:
    axis = layer.axis

    def evaluate(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        return x.astype(np.float32) * _align(scale, zero_point, x, axis)

    return evaluate


def _align(scale: Array, zero_point: Array | None, x: Array, axis: int) -> Array:
    if zero_point is not None and np.any(zero_point):
        raise UnsupportedLayerError("the zero point is not 0, but TensorRT only quantizes symmetrically")
    if scale.size == 1:
        return scale.reshape(())
    if scale.ndim != 1:
        raise UnsupportedLayerError(f"scales by blocks, of shape {scale.shape}, have no rule here")
    return scale.reshape(-1, *(1,) * (x.ndim - 1 - axis % x.ndim))
