"""Suppression of boxes as one primitive, for backends that have a layer for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, DType, Op, Shape, Value
from prototrt.surgery.ir.axes import Tie, one_by_one


@dataclass(frozen=True, slots=True)
class NonMaxSuppression(Op):
    """Which candidates of sorted lists are kept. A candidate is dropped if an earlier kept one overlaps it too much.

    Boxes are (lists, n, 4), the corners xmin, ymin, xmax, ymax with a maximum that is not below its
    minimum; candidates and results are truth values (lists, n). Too much is an intersection over union
    above the ``threshold``. Areas are ``(xmax - xmin) * (ymax - ymin)``, without an extra pixel.
    """

    threshold: float

    def shape(self, boxes: Shape, is_candidate: Shape) -> list[Shape]:
        assert boxes == (*is_candidate, 4)
        return [is_candidate]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [DType.BOOL]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return [(value, outputs[0], one_by_one((0, 1))) for value in inputs]

    def mixes(self, rank: int) -> Collection[int]:
        return (1,)

    def evaluate(self, boxes: Array, is_candidate: Array) -> list[Array]:
        kept = is_candidate.copy()
        for corners, row in zip(boxes, kept, strict=True):
            for index in range(len(row)):
                row[index + 1 :] &= ~(
                    row[index] & (_overlaps(corners[index], corners[index + 1 :]) > self.threshold)
                )
        return [kept]


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of a box and each of the others; 0 where they only touch."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = sides.clip(0).prod(-1)
    whole = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(-1) - common
    return np.asarray(np.divide(common, whole, out=np.zeros_like(common), where=common > 0))
