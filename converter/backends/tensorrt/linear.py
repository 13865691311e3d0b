"""Lowering of matrix products."""

from __future__ import annotations

from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import MatMul


@lowers(MatMul)
def matmul(network: Network, op: MatMul, a: Tensor, b: Tensor) -> list[Tensor]:
    plain, transposed = network.enum("MatrixOperation", "NONE"), network.enum("MatrixOperation", "TRANSPOSE")
    layer = network.add("matrix_multiply", a, plain, b, transposed if op.transpose_b else plain)
    return [layer.get_output(0)]
