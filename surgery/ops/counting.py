"""Numbers from sizes: counted elements, and sizes themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, DType, Op, Shape, Size, Value, fixed
from prototrt.surgery.ir.axes import Tie


@dataclass(frozen=True, slots=True)
class Count(Op):
    """``first``, ``first + step``, ``first + 2 step``, ...: (``size``,), int32. It reads nothing.

    For sizes that vary. Other numbers are constants.
    """

    size: Size
    first: Size = 0
    step: Size = 1

    def shape(self) -> list[Shape]:
        return [(self.size,)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [DType.INT32]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return ()

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def evaluate(self) -> list[Array]:
        size, first, step = (fixed(number, "a size") for number in (self.size, self.first, self.step))
        return [first + step * np.arange(size, dtype=np.int32)]
