"""Sizes that vary, computed inside an ONNX model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prototrt.converter.onnx.model import OnnxModel


@dataclass(frozen=True, slots=True, eq=False)
class SizeName:
    """The name of a size, an int64 vector of one number. It is added, multiplied and divided as a number is."""

    model: OnnxModel
    name: str

    def __add__(self, other: SizeName | int) -> SizeName:
        return self if other == 0 else self._with(other, "Add")

    def __mul__(self, other: SizeName | int) -> SizeName:
        return self if other == 1 else self._with(other, "Mul")

    def __floordiv__(self, divisor: int) -> SizeName:
        # ONNX cuts fractions off, which rounds down what is not negative.
        return self if divisor == 1 else self._with(divisor, "Div")

    __radd__, __rmul__ = __add__, __mul__

    def _with(self, other: SizeName | int, kind: str) -> SizeName:
        right = self.model.integers(other) if isinstance(other, int) else other.name
        return SizeName(self.model, self.model.add(kind, self.name, right))
