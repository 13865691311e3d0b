"""Lowerings of convolution, of its transpose, and of what their windows see."""

from __future__ import annotations

import math

import numpy as np

from prototrt.converter.backends.onnx.axes import squeeze, unsqueeze
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array, fixed
from prototrt.surgery.ops import Convolution, Deconvolution, Patches


@lowers(Convolution, Deconvolution)
def convolution(
    model: OnnxModel, op: Convolution | Deconvolution, x: Tensor, kernel: Array | Tensor, bias: Array
) -> list[str]:
    """A convolution over no axis becomes one over an axis of size 1, because ONNX needs one."""
    if not op.stride:
        lifted = type(op)((1,), (0,), (1,), op.group)
        image = Tensor(unsqueeze(model, x, 2), x.dtype, (*x.shape, 1))
        (y,) = convolution(model, lifted, image, _with_axis(model, kernel), bias)
        return [squeeze(model, y, 2)]
    kind = "Conv" if isinstance(op, Convolution) else "ConvTranspose"
    weights = kernel if isinstance(kernel, Tensor) else model.array(kernel)
    windows = {"strides": op.stride, "pads": op.pad * 2, "dilations": op.dilation}
    sizes = kernel.shape[2:]
    return [model.add(kind, x, weights, model.array(bias), kernel_shape=sizes, group=op.group, **windows)]


def _with_axis(model: OnnxModel, kernel: Array | Tensor) -> Array | Tensor:
    if isinstance(kernel, Tensor):
        name = unsqueeze(model, kernel, kernel.rank)
        return Tensor(name, kernel.dtype, (*kernel.shape, 1))
    return kernel.reshape(*kernel.shape, 1)


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
