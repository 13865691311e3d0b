"""Lowerings of functions of one element, of two, and of copies in another type."""

from __future__ import annotations

from prototrt.converter.onnx.api import ELEMENT_TYPES
from prototrt.converter.onnx.lowering import lowers
from prototrt.converter.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ops import Binary, BinaryKind, Cast, Identity, Power, Unary, UnaryKind

_BINARY = {
    BinaryKind.ADD: "Add",
    BinaryKind.SUBTRACT: "Sub",
    BinaryKind.MULTIPLY: "Mul",
    BinaryKind.DIVIDE: "Div",
    BinaryKind.MAXIMUM: "Max",
    BinaryKind.MINIMUM: "Min",
    BinaryKind.GREATER: "Greater",
    BinaryKind.EQUAL: "Equal",
    BinaryKind.AND: "And",
    BinaryKind.OR: "Or",
}
_UNARY = {
    UnaryKind.ABS: "Abs",
    UnaryKind.CEIL: "Ceil",
    UnaryKind.COS: "Cos",
    UnaryKind.ERF: "Erf",
    UnaryKind.EXP: "Exp",
    UnaryKind.FLOOR: "Floor",
    UnaryKind.LOG: "Log",
    UnaryKind.NEGATIVE: "Neg",
    UnaryKind.NOT: "Not",
    UnaryKind.SIGN: "Sign",
    UnaryKind.SIN: "Sin",
    UnaryKind.SQRT: "Sqrt",
}


@lowers(Binary)
def binary(model: OnnxModel, op: Binary, a: Tensor, b: Tensor) -> list[str]:
    return [model.add(_BINARY[op.kind], a, b)]


@lowers(Unary)
def unary(model: OnnxModel, op: Unary, x: Tensor) -> list[str]:
    return [model.add(_UNARY[op.kind], x)]


@lowers(Power)
def power(model: OnnxModel, op: Power, x: Tensor) -> list[str]:
    return [model.add("Pow", x, model.scalar(op.exponent, x.dtype))]


@lowers(Cast)
def cast(model: OnnxModel, op: Cast, x: Tensor) -> list[str]:
    return [model.add("Cast", x, to=ELEMENT_TYPES[op.to])]


@lowers(Identity)
def identity(model: OnnxModel, op: Identity, x: Tensor) -> list[str]:
    return [model.add("Identity", x)]
