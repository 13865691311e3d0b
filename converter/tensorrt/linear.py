"""Lowerings of matrix products, per-channel scaling and normalization."""

from __future__ import annotations

from prototrt.converter.tensorrt.lowering import lowers
from prototrt.converter.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import Array
from prototrt.surgery.ops import LRN, Affine, MatMul, Softmax


@lowers(MatMul)
def matmul(network: Network, op: MatMul, a: Tensor, b: Tensor) -> list[Tensor]:
    plain, transposed = network.enum("MatrixOperation", "NONE"), network.enum("MatrixOperation", "TRANSPOSE")
    layer = network.add("matrix_multiply", a, plain, b, transposed if op.transpose_b else plain)
    return [layer.get_output(0)]


@lowers(Affine)
def affine(network: Network, op: Affine, x: Tensor, scale: Array, shift: Array) -> list[Tensor]:
    power = network.trt.Weights(x.dtype)
    mode = network.enum("ScaleMode", "CHANNEL")
    layer = network.add("scale_nd", x, mode, network.weights(shift), network.weights(scale), power, 1)
    return [layer.get_output(0)]


@lowers(LRN)
def lrn(network: Network, op: LRN, x: Tensor) -> list[Tensor]:
    return [network.add("lrn", x, op.size, op.alpha, op.beta, op.k).get_output(0)]


@lowers(Softmax)
def softmax(network: Network, op: Softmax, x: Tensor) -> list[Tensor]:
    layer = network.add("softmax", x)
    layer.axes = 1 << op.axis
    assert layer.axes == 1 << op.axis, "TensorRT keeps the old axes where it refuses new ones"
    return [layer.get_output(0)]
