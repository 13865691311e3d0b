"""Matrix products."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, Op, Shape, Value, element_count, fixed
from prototrt.surgery.ir.axes import Tie, one_by_one
from prototrt.surgery.ops.elementwise import broadcast


@dataclass(frozen=True, slots=True)
class MatMul(Op):
    """``a (..., M, K) @ b (..., K, N)``; leading axes broadcast, ranks are equal.

    ``transpose_b`` reads b as (..., N, K), the way Caffe stores weights.
    """

    transpose_b: bool = False

    def shape(self, a: Shape, b: Shape) -> list[Shape]:
        inner, columns = (b[-1], b[-2]) if self.transpose_b else (b[-2], b[-1])
        if a[-1] != inner:
            raise ShapeError(
                f"a product of {a} with {b} needs inner sizes that agree: {a[-1]} is not {inner}",
                fix=f"transpose one operand, or flatten from another axis, so that {a[-1]} meets {a[-1]}",
            )
        return [(*broadcast(a[:-2], b[:-2]), a[-2], columns)]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        (a, b), (y,), last = inputs, outputs, len(outputs[0].shape) - 1
        column = last - 1 if self.transpose_b else last
        yield a, y, one_by_one(range(last))
        yield b, y, one_by_one((*range(last - 1), column), (*range(last - 1), last))

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        last = max(places)
        return self if [*places[-2:]] == [last - 1, last] else None

    def evaluate(self, a: Array, b: Array) -> list[Array]:
        return [np.matmul(a, np.swapaxes(b, -1, -2) if self.transpose_b else b)]

    def multiply_adds(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        return element_count(outputs[0]) * fixed(inputs[0][-1], "the inner size")
