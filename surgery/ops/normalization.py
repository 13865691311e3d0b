"""Per-channel scaling, local response normalization, softmax."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

import numpy as np

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.ir import Array, Op, Shape, Value
from prototrt.surgery.ir.axes import Tie, at_same_places, one_by_one
from prototrt.surgery.ops.shape import AlongAxis


@dataclass(frozen=True, slots=True)
class Affine(Op):
    """``x * scale + shift``, with one scale and one shift for each element of axis 1.

    x (N, C, ...), scale and shift (C,). ``epsilon`` is that of a batch normalization, for a framework that trains it.
    """

    epsilon: float | None = field(default=None, repr=False, compare=False)

    constants: ClassVar[tuple[int, ...]] = (1, 2)

    def shape(self, x: Shape, scale: Shape, shift: Shape) -> list[Shape]:
        assert scale == shift == (x[1],), f"{scale} and {shift} for {x}"
        return [x]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        x, *factors = inputs
        yield from at_same_places([x], outputs)
        yield from ((factor, x, one_by_one((0,), (1,))) for factor in factors)

    def mixes(self, rank: int) -> Collection[int]:
        return ()

    def evaluate(self, x: Array, scale: Array, shift: Array) -> list[Array]:
        per_channel = (-1, *(1,) * (x.ndim - 2))
        return [x * scale.reshape(per_channel) + shift.reshape(per_channel)]


@dataclass(frozen=True, slots=True)
class LRN(Op):
    """``x / (k + alpha / size * sum(x^2 over size channels around))^beta``, x (N, C, H, W)."""

    size: int
    alpha: float
    beta: float
    k: float

    def shape(self, x: Shape) -> list[Shape]:
        return [x]

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return at_same_places(inputs, outputs)

    def mixes(self, rank: int) -> Collection[int]:
        return (1,)

    def evaluate(self, x: Array) -> list[Array]:
        half = self.size // 2
        squares = np.pad(x * x, [(0, 0), (half, half), (0, 0), (0, 0)])
        around = sum(squares[:, i : i + x.shape[1]] for i in range(self.size))
        scale = self.k + self.alpha / self.size * around
        return [np.asarray(x * scale**-self.beta, x.dtype)]


@dataclass(frozen=True, slots=True)
class Softmax(AlongAxis):
    """``exp(x) / sum(exp(x))`` along one axis."""

    axis: int

    def shape(self, x: Shape) -> list[Shape]:
        return [x]

    def evaluate(self, x: Array) -> list[Array]:
        weights = np.exp(x - x.max(self.axis, keepdims=True, initial=-np.inf))
        return [weights / weights.sum(self.axis, keepdims=True)]
