"""One of two elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prototrt.surgery.ir import Array, DType, Op, Shape
from prototrt.surgery.ops.elementwise import broadcast


@dataclass(frozen=True, slots=True)
class Select(Op):
    """``a`` where the condition is true, else ``b``; what is not chosen may be anything, NaN included.

    Sizes 1 broadcast, ranks are equal.
    """

    def shape(self, condition: Shape, a: Shape, b: Shape) -> list[Shape]:
        return [broadcast(condition, a, b)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [inputs[1]]

    def evaluate(self, condition: Array, a: Array, b: Array) -> list[Array]:
        return [np.where(condition, a, b)]
