"""Functions of one element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prototrt.surgery.ir import Array, Op, Shape


class Pointwise(Op):
    """Anything that works element by element on one input."""

    __slots__ = ()

    def shape(self, x: Shape) -> list[Shape]:
        return [x]


@dataclass(frozen=True, slots=True)
class Identity(Pointwise):
    """A copy under another name."""

    def evaluate(self, x: Array) -> list[Array]:
        return [x]


@dataclass(frozen=True, slots=True)
class LeakyReLU(Pointwise):
    """``max(x, 0) + slope * min(x, 0)``. ``slope`` 0 is the plain ReLU."""

    slope: float = 0.0

    def evaluate(self, x: Array) -> list[Array]:
        positive = np.maximum(x, 0)
        return [positive + x.dtype.type(self.slope) * np.minimum(x, 0) if self.slope else positive]


@dataclass(frozen=True, slots=True)
class Sigmoid(Pointwise):
    """``1 / (1 + exp(-x))``, written with tanh, which does not overflow."""

    def evaluate(self, x: Array) -> list[Array]:
        half = x.dtype.type(0.5)
        return [half * np.tanh(half * x) + half]


@dataclass(frozen=True, slots=True)
class TanH(Pointwise):
    """``tanh(x)``."""

    def evaluate(self, x: Array) -> list[Array]:
        return [np.tanh(x)]
