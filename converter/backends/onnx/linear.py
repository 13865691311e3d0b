"""Lowering of matrix products."""

from __future__ import annotations

from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ops import MatMul


@lowers(MatMul)
def matmul(model: OnnxModel, op: MatMul, a: Tensor, b: Tensor) -> list[str]:
    if not op.transpose_b:
        return [model.add("MatMul", a, b)]
    if a.rank == 2:
        return [model.add("Gemm", a, b, transB=1)]
    # MatMul cannot transpose its factors: runtimes transpose a constant once.
    order = [*range(b.rank - 2), b.rank - 1, b.rank - 2]
    return [model.add("MatMul", a, model.add("Transpose", b, perm=order))]
