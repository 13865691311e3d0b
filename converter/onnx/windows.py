"""Lowerings of what slides over the last axes."""

from __future__ import annotations

from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import AveragePool, Convolution, Deconvolution, MaxPool


@lowers(Convolution)
def convolution(model: OnnxModel, op: Convolution, x: Tensor, kernel: Array, bias: Array) -> list[str]:
    return [_convolved(model, "Conv", op, x, kernel, bias)]


@lowers(Deconvolution)
def deconvolution(model: OnnxModel, op: Deconvolution, x: Tensor, kernel: Array, bias: Array) -> list[str]:
    return [_convolved(model, "ConvTranspose", op, x, kernel, bias)]


def _convolved(
    model: OnnxModel, kind: str, op: Convolution | Deconvolution, x: Tensor, kernel: Array, bias: Array
) -> str:
    """A convolution over no axis is one over an axis of size 1: ONNX wants one."""
    if not op.stride:
        axis = model.integers(2)
        lifted = type(op)((1,), (0,), (1,), op.group)
        image = Tensor(model.add("Unsqueeze", x, axis), x.dtype, (*x.shape, 1))
        y = _convolved(model, kind, lifted, image, kernel.reshape(*kernel.shape, 1), bias)
        return model.add("Squeeze", y, axis)
    weights = model.array(kernel), model.array(bias)
    windows = {"strides": op.stride, "pads": op.pad * 2, "dilations": op.dilation}
    return model.add(kind, x, *weights, kernel_shape=kernel.shape[2:], group=op.group, **windows)


@lowers(MaxPool)
def max_pool(model: OnnxModel, op: MaxPool, x: Tensor) -> list[str]:
    pads = op.before + op.after
    return [model.add("MaxPool", x, kernel_shape=op.window, strides=op.stride, pads=pads)]


@lowers(AveragePool)
def average_pool(model: OnnxModel, op: AveragePool, x: Tensor) -> list[str]:
    pads, window = op.before + op.after, op.window
    # Without count_include_pad the sum is divided by the number of elements that are not padding.
    return [model.add("AveragePool", x, kernel_shape=window, strides=op.stride, pads=pads)]
