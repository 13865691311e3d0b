"""Elements chosen: by a condition, by an index, or by a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prototrt.caffe_proto.errors import ShapeError
from prototrt.surgery.ir import Array, DataSize, DType, Op, Shape
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


@dataclass(frozen=True, slots=True)
class Gather(Op):
    """Rows of ``table`` (K, ...) picked by whole numbers: the shape of ``index``, then of a row."""

    def shape(self, table: Shape, index: Shape) -> list[Shape]:
        return [(*index, *table[1:])]

    def evaluate(self, table: Array, index: Array) -> list[Array]:
        outside = index[(index < 0) | (index >= len(table))]
        if outside.size:
            raise ShapeError(
                f"index {outside[0]} is outside the {len(table)} rows that it picks from",
                fix=f"feed indices from 0 to {len(table) - 1}",
            )
        return [table[index]]


@dataclass(frozen=True, slots=True)
class Compress(Op):
    """The items of x (N, ...) whose element of ``chosen`` (N,) is not 0: (``count``, ...)."""

    count: DataSize

    data_dependent: ClassVar[bool] = True

    def shape(self, x: Shape, chosen: Shape) -> list[Shape]:
        return [(self.count, *x[1:])]

    def evaluate(self, x: Array, chosen: Array) -> list[Array]:
        return [x[chosen != 0]]
