"""Reductions of many elements to one, or to the few largest."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir import Array, DType, Op, Shape, Value, computable, range_of
from prototrt.surgery.ir.axes import Tie, at_same_places, one_by_one
from prototrt.surgery.ops.shape import AlongAxis


class ReduceKind(enum.Enum):
    """The kind of reduction; the values are NumPy's names."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """``kind`` of the elements along ``axes``, which become 1 with ``keep`` and vanish without."""

    kind: ReduceKind
    axes: tuple[int, ...]
    keep: bool = True

    def shape(self, x: Shape) -> list[Shape]:
        if self.keep:
            return [tuple(1 if axis in self.axes else dim for axis, dim in enumerate(x))]
        return [tuple(dim for axis, dim in enumerate(x) if axis not in self.axes)]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        kept = tuple(axis for axis in range(len(inputs[0].shape)) if axis not in self.axes)
        yield inputs[0], outputs[0], one_by_one(kept, kept if self.keep else range(len(kept)))

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def renumbered(self, places: Sequence[int]) -> Op | None:
        if not self.keep and list(places) != sorted(places):
            return None
        return replace(self, axes=tuple(places[axis] for axis in self.axes))

    def evaluate(self, x: Array) -> list[Array]:
        function: Callable[..., Any] = getattr(np, self.kind.value)
        return [np.asarray(function(x, axis=self.axes, keepdims=self.keep))]


@dataclass(frozen=True, slots=True)
class TopK(AlongAxis):
    """The ``count`` largest elements along one axis, in descending order, and their indices (int32).

    Of equal elements the one with the larger index comes first, as in Caffe's ArgMax; with
    ``first_of_equals`` the one with the smaller index, as after a stable sort.
    """

    axis: int
    count: int
    first_of_equals: bool = False

    def shape(self, x: Shape) -> list[Shape]:
        assert 1 <= self.count <= range_of(computable(x[self.axis], f"axis {self.axis}")).min
        shape = (*x[: self.axis], self.count, *x[self.axis + 1 :])
        return [shape, shape]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [inputs[0], DType.INT32]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return at_same_places(inputs, outputs, without=self.axis)

    def evaluate(self, x: Array) -> list[Array]:
        # In reverse, so that a stable sort sees the larger of two indices first.
        seen = x if self.first_of_equals else np.flip(x, self.axis)
        order = np.argsort(-seen, self.axis, kind="stable").take(range(self.count), self.axis)
        places = order if self.first_of_equals else x.shape[self.axis] - 1 - order
        return [np.take_along_axis(x, places, self.axis), places.astype(np.int32)]
