"""Lowerings of functions of one element, of two, and of copies in another type."""

from __future__ import annotations

from prototrt.converter.backends.onnx.api import ELEMENT_TYPES
from prototrt.converter.backends.onnx.lowering import lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Tensor
from prototrt.surgery.ir import DType
from prototrt.surgery.ops import Binary, BinaryKind, Cast, Identity, Power, Unary, UnaryKind

_SHORT_NAMES = {
    BinaryKind.SUBTRACT: "Sub",
    BinaryKind.MULTIPLY: "Mul",
    BinaryKind.DIVIDE: "Div",
    BinaryKind.MAXIMUM: "Max",
    BinaryKind.MINIMUM: "Min",
    UnaryKind.NEGATIVE: "Neg",
}
"""ONNX's operators that are not called as our kinds are."""
_CHOICES = (BinaryKind.MAXIMUM, BinaryKind.MINIMUM)
_CHOICES_OF_INTEGERS = 12
"""The first opset whose Max and Min read integers."""


@lowers(Binary)
def binary(model: OnnxModel, op: Binary, a: Tensor, b: Tensor) -> list[str]:
    if op.kind in _CHOICES and a.dtype is DType.INT32:
        return [chosen_integer(model, op.kind, a, b)]
    return [model.add(_operator(op.kind), a, b)]


def chosen_integer(model: OnnxModel, kind: BinaryKind, a: Tensor | str, b: Tensor | str) -> str:
    """The larger or the smaller of two whole numbers."""
    if model.opset >= _CHOICES_OF_INTEGERS:
        return model.add(_operator(kind), a, b)
    chosen = (a, b) if kind is BinaryKind.MAXIMUM else (b, a)
    return model.add("Where", model.add("Greater", a, b), *chosen)


def _operator(kind: BinaryKind | UnaryKind) -> str:
    return _SHORT_NAMES.get(kind, kind.name.title())


@lowers(Unary)
def unary(model: OnnxModel, op: Unary, x: Tensor) -> list[str]:
    return [model.add(_operator(op.kind), x)]


@lowers(Power)
def power(model: OnnxModel, op: Power, x: Tensor) -> list[str]:
    return [model.add("Pow", x, model.scalar(op.exponent, x.dtype))]


@lowers(Cast)
def cast(model: OnnxModel, op: Cast, x: Tensor) -> list[str]:
    return [model.add("Cast", x, to=ELEMENT_TYPES[op.to])]


@lowers(Identity)
def identity(model: OnnxModel, op: Identity, x: Tensor) -> list[str]:
    return [model.add("Identity", x)]
