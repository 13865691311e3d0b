"""Lowerings of activations."""

from __future__ import annotations

from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ops import ELU, Clip, HardSigmoid, LeakyReLU, PReLU, Sigmoid, Softsign, TanH


@lowers(LeakyReLU)
def leaky_relu(model: OnnxModel, op: LeakyReLU, x: Tensor) -> list[str]:
    return [model.add("LeakyRelu", x, alpha=float(op.slope)) if op.slope else model.add("Relu", x)]


@lowers(Sigmoid, Softsign, TanH)
def by_name(model: OnnxModel, op: Sigmoid | Softsign | TanH, x: Tensor) -> list[str]:
    return [model.add(type(op).__name__.title(), x)]


@lowers(Clip)
def clip(model: OnnxModel, op: Clip, x: Tensor) -> list[str]:
    """Not ONNX's Clip, which takes the upper bound where the bounds cross."""
    below = model.add("Min", x, model.scalar(op.high, x.dtype))
    return [model.add("Max", below, model.scalar(op.low, x.dtype))]


@lowers(ELU)
def elu(model: OnnxModel, op: ELU, x: Tensor) -> list[str]:
    return [model.add("Elu", x, alpha=float(op.alpha))]


@lowers(HardSigmoid)
def hard_sigmoid(model: OnnxModel, op: HardSigmoid, x: Tensor) -> list[str]:
    return [model.add("HardSigmoid", x, alpha=float(op.alpha), beta=float(op.beta))]


@lowers(PReLU)
def prelu(model: OnnxModel, op: PReLU, x: Tensor, slope: Tensor) -> list[str]:
    return [model.add("PRelu", x, slope)]
