"""Lowerings of pooling."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.onnx.axes import reduce_axes, squeeze
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import AveragePool, MaxPool, MaxPoolIndex, ReduceKind, StochasticPool


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
    """The smallest index among the elements that equal their window's maximum.

    ONNX's MaxPool would also give indices, but TensorRT's parser refuses that second output. So two Gathers lay out
    what the windows see, as (N, C, places, windows, places, windows) of rows and columns.
    """
    height, width = fixed(x.shape[2], "the height"), fixed(x.shape[3], "the width")
    places = np.arange(height * width, dtype=x.dtype.numpy).reshape(height, width)
    around = list(zip(op.before, op.after, strict=True))
    rows, columns = (
        np.arange(window)[:, None] + stride * np.arange((size + sum(pads) - window) // stride + 1)
        for window, stride, size, pads in zip(op.window, op.stride, places.shape, around, strict=True)
    )
    padded = np.pad(places, around)  # no maximum is in the padding
    index = model.array(padded[rows[:, :, None, None], columns][None, None])
    far, nothing = model.scalar(np.inf, x.dtype), model.scalar(-np.inf, x.dtype)
    pads = model.integers(0, 0, *op.before, 0, 0, *op.after)
    seen = model.add("Gather", model.add("Pad", x, pads, nothing), model.array(rows), axis=2)
    seen = model.add("Gather", seen, model.array(columns), axis=4)
    largest = reduce_axes(model, ReduceKind.MAX, seen, (2, 4), keep=True)
    candidates = model.add("Where", model.add("Equal", seen, largest), index, far)
    first = reduce_axes(model, ReduceKind.MIN, candidates, (2, 4), keep=True)
    # A maximum that is the lowest number itself is larger than nothing.
    counts = model.add("Greater", largest, model.scalar(float(np.finfo(x.dtype.numpy).min), x.dtype))
    chosen = model.add("Where", counts, first, model.scalar(-1, x.dtype))
    return [squeeze(model, chosen, 2, 4)]


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
