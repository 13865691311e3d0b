"""Lowerings of matrix products, per-channel scaling and normalization."""

from __future__ import annotations

from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import LRN, Affine, MatMul, Softmax


@lowers(MatMul)
def matmul(model: OnnxModel, op: MatMul, a: Tensor, b: Tensor) -> list[str]:
    if not op.transpose_b:
        return [model.add("MatMul", a, b)]
    if a.rank == 2:
        return [model.add("Gemm", a, b, transB=1)]
    # MatMul reads its factors as they are: whoever runs the model transposes a constant once.
    order = [*range(b.rank - 2), b.rank - 1, b.rank - 2]
    return [model.add("MatMul", a, model.add("Transpose", b, perm=order))]


@lowers(Affine)
def affine(model: OnnxModel, op: Affine, x: Tensor, scale: Array, shift: Array) -> list[str]:
    per_channel = (-1, *(1,) * (x.rank - 2))
    product = model.add("Mul", x, model.array(scale.reshape(per_channel)))
    return [model.add("Add", product, model.array(shift.reshape(per_channel)))]


@lowers(LRN)
def lrn(model: OnnxModel, op: LRN, x: Tensor) -> list[str]:
    return [model.add("LRN", x, size=op.size, alpha=op.alpha, beta=op.beta, bias=op.k)]


@lowers(Softmax)
def softmax(model: OnnxModel, op: Softmax, x: Tensor) -> list[str]:
    return [model.add("Softmax", x, axis=op.axis)]
