"""Lowerings that need to know what windows see, and where."""

from __future__ import annotations

import math

import numpy as np

from prototrt.converter.onnx.api import ELEMENT_TYPES
from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import MaxPoolIndex, Patches, StochasticPool


@lowers(Patches)
def patches(model: OnnxModel, op: Patches, x: Tensor) -> list[str]:
    """One gather an axis, which makes two of it: the place in the window, and the window."""
    count = len(op.window)
    seen = model.add("Pad", x, model.integers(*(0, 0, *op.pad) * 2))
    sizes = [fixed(size, "an axis") + 2 * pad for size, pad in zip(x.shape[2:], op.pad, strict=True)]
    for axis in reversed(range(count)):
        k, s, d = op.window[axis], op.stride[axis], op.dilation[axis]
        windows = (sizes[axis] - d * (k - 1) - 1) // s + 1
        places = d * np.arange(k)[:, None] + s * np.arange(windows)
        seen = model.add("Gather", seen, model.array(places.astype(np.int64)), axis=2 + axis)
    order = (0, 1, *range(2, 2 + 2 * count, 2), *range(3, 3 + 2 * count, 2))
    ((_, _, *out),) = op.shape(x.shape)
    channels = fixed(x.shape[1], "the number of channels") * math.prod(op.window)
    # 0 copies the size of the batch, whatever it is.
    sizes_after = model.integers(0, channels, *(fixed(size, "a size") for size in out))
    return [model.add("Reshape", model.add("Transpose", seen, perm=order), sizes_after)]


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
