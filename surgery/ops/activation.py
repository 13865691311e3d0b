"""Activations: element-wise functions between the layers of a net."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, Shape
from prototrt.surgery.ops.elementwise import Elementwise, Pointwise, broadcast


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


@dataclass(frozen=True, slots=True)
class Clip(Pointwise):
    """``max(low, min(x, high))``: ``low`` where ``low`` is above ``high``. NaN stays NaN."""

    low: float
    high: float

    def evaluate(self, x: Array) -> list[Array]:
        low, high = map(x.dtype.type, (self.low, self.high))
        return [np.maximum(np.minimum(x, high), low)]


@dataclass(frozen=True, slots=True)
class ELU(Pointwise):
    """``x`` where it is positive, otherwise ``alpha * (exp(x) - 1)``."""

    alpha: float = 1.0

    def evaluate(self, x: Array) -> list[Array]:
        return [np.maximum(x, 0) + x.dtype.type(self.alpha) * np.expm1(np.minimum(x, 0))]


@dataclass(frozen=True, slots=True)
class HardSigmoid(Pointwise):
    """``alpha * x + beta``, kept between 0 and 1."""

    alpha: float = 0.2
    beta: float = 0.5

    def evaluate(self, x: Array) -> list[Array]:
        line = x.dtype.type(self.alpha) * x + x.dtype.type(self.beta)
        return [np.minimum(np.maximum(line, 0), 1)]


@dataclass(frozen=True, slots=True)
class Softsign(Pointwise):
    """``x / (1 + |x|)``."""

    def evaluate(self, x: Array) -> list[Array]:
        return [x / (1 + np.abs(x))]


@dataclass(frozen=True, slots=True)
class PReLU(Elementwise):
    """``max(x, 0) + slope * min(x, 0)``; the slopes broadcast against x and have its rank."""

    def shape(self, x: Shape, slope: Shape) -> list[Shape]:
        assert broadcast(x, slope) == x, f"{slope} for {x}"
        return [x]

    def evaluate(self, x: Array, slope: Array) -> list[Array]:
        return [np.maximum(x, 0) + slope * np.minimum(x, 0)]
