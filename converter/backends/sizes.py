"""Sizes that vary, computed inside a network of TensorRT or a model of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from prototrt.caffe_proto.common.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ComputedSize(Generic[T]):
    """A size that the backend computes. It is added, multiplied and divided as a number is.

    ``combine`` adds an operation ("+", "*" or "//") on two sizes to what is being written.
    """

    size: T
    combine: Callable[[str, T, T | int], T]

    def __add__(self, other: ComputedSize[T] | int) -> ComputedSize[T]:
        return self if other == 0 else self._with("+", other)

    def __mul__(self, other: ComputedSize[T] | int) -> ComputedSize[T]:
        return self if other == 1 else self._with("*", other)

    def __floordiv__(self, divisor: int) -> ComputedSize[T]:
        return self if divisor == 1 else self._with("//", divisor)

    __radd__, __rmul__ = __add__, __mul__

    def _with(self, operation: str, other: ComputedSize[T] | int) -> ComputedSize[T]:
        right = other if isinstance(other, int) else other.size
        return ComputedSize(self.combine(operation, self.size, right), self.combine)
