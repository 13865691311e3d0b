"""Lowerings of scaling by channel and of normalization."""

from __future__ import annotations

from prototrt.converter.backends.onnx.axes import squeeze, unsqueeze
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import LRN, Affine, Softmax

_SOFTMAX_OVER_ONE_AXIS = 13


@lowers(Affine)
def affine(model: OnnxModel, op: Affine, x: Tensor, scale: Array, shift: Array) -> list[str]:
    per_channel = (-1, *(1,) * (x.rank - 2))
    product = model.add("Mul", x, model.array(scale.reshape(per_channel)))
    return [model.add("Add", product, model.array(shift.reshape(per_channel)))]


@lowers(LRN)
def lrn(model: OnnxModel, op: LRN, x: Tensor) -> list[str]:
    """ONNX's own operator if onnxruntime accepts the numbers, otherwise the same from smaller operators."""
    if op.alpha > 0 and op.beta > 0:
        numbers = {"alpha": float(op.alpha), "beta": float(op.beta), "bias": float(op.k)}
        return [model.add("LRN", x, size=op.size, **numbers)]
    half = op.size // 2
    squares = unsqueeze(model, model.add("Mul", x, x), 1)
    window = {"kernel_shape": (op.size, 1, 1), "pads": (half, 0, 0, half, 0, 0)}
    mean = squeeze(model, model.add("AveragePool", squares, count_include_pad=1, **window), 1)
    scaled = model.add("Mul", mean, model.scalar(op.alpha, x.dtype))
    base = model.add("Add", scaled, model.scalar(op.k, x.dtype))
    return [model.add("Mul", x, model.add("Pow", base, model.scalar(-op.beta, x.dtype)))]


@lowers(Softmax)
def softmax(model: OnnxModel, op: Softmax, x: Tensor) -> list[str]:
    """Over one axis. An older Softmax is over all axes from this one on, so it gets the last one."""
    last = x.rank - 1
    if model.opset >= _SOFTMAX_OVER_ONE_AXIS or op.axis == last:
        return [model.add("Softmax", x, axis=op.axis)]
    order = list(range(x.rank))
    order[op.axis], order[last] = last, op.axis
    moved = model.add("Softmax", model.add("Transpose", x, perm=order), axis=last)
    return [model.add("Transpose", moved, perm=order)]
