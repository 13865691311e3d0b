"""Lowerings of pooling."""

from __future__ import annotations

import numpy as np

from prototrt.converter.onnx.api import ELEMENT_TYPES
from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import AveragePool, MaxPool, MaxPoolIndex, StochasticPool


@lowers(MaxPool)
def max_pool(model: OnnxModel, op: MaxPool, x: Tensor) -> list[str]:
    pads = op.before + op.after
    return [model.add("MaxPool", x, kernel_shape=op.window, strides=op.stride, pads=pads)]


@lowers(AveragePool)
def average_pool(model: OnnxModel, op: AveragePool, x: Tensor) -> list[str]:
    pads, window = op.before + op.after, op.window
    # Without count_include_pad the sum is divided by the number of elements that are not padding.
    return [model.add("AveragePool", x, kernel_shape=window, strides=op.stride, pads=pads)]


@lowers(MaxPoolIndex)
def max_pool_index(model: OnnxModel, op: MaxPoolIndex, x: Tensor) -> list[str]:
    """ONNX counts through the whole tensor; the remainder is the place in the plane."""
    windows = {"kernel_shape": op.window, "strides": op.stride, "pads": op.before + op.after}
    largest, index = model.add_all("MaxPool", [x], 2, **windows)
    plane = fixed(x.shape[2], "the height") * fixed(x.shape[3], "the width")
    place = model.add("Cast", model.add("Mod", index, model.integers(plane)), to=ELEMENT_TYPES[x.dtype])
    lowest = float(np.finfo(x.dtype.numpy).min)
    counts = model.add("Greater", largest, model.scalar(lowest, x.dtype))
    return [model.add("Where", counts, place, model.scalar(-1, x.dtype))]


@lowers(StochasticPool)
def stochastic_pool(model: OnnxModel, op: StochasticPool, x: Tensor) -> list[str]:
    """The ratio of two means over whole windows: what both are divided by drops out."""
    windows = {"kernel_shape": op.window, "strides": op.stride, "pads": op.before + op.after}
    mean, of_squares = (
        model.add("AveragePool", tensor, count_include_pad=1, **windows)
        for tensor in (x, model.add("Mul", x, x))
    )
    zero, one = model.scalar(0, x.dtype), model.scalar(1, x.dtype)
    is_positive = model.add("Greater", mean, zero)
    ratio = model.add("Div", of_squares, model.add("Where", is_positive, mean, one))
    return [model.add("Where", is_positive, ratio, zero)]
