"""Weights of 16 bits, and weights that do not fit into float16."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from prototrt.surgery.ir import Array, DType, Op, Value
from prototrt.surgery.ir.uniform_constants import map_elements, memory_of, unbroadcast

LARGEST = float(np.finfo(np.float16).max)
"""65504. Larger numbers become infinite."""
SMALLEST = float(np.finfo(np.float16).smallest_normal)
"""2^-14. Smaller numbers have fewer than 11 digits, and none below 2^-25."""


class HalfWeights:
    """Casts each constant to float16 or bfloat16 once, even if several nodes read it."""

    def __init__(self, dtype: DType = DType.FLOAT16) -> None:
        self.dtype = dtype
        self._cast: dict[tuple[object, ...], Array] = {}

    def of(self, value: Value) -> Value:
        """The constant in 16 bits."""
        key = memory_of(value.array)
        if key not in self._cast:
            with np.errstate(all="ignore"):  # NaN and infinity are reported when weights are read
                self._cast[key] = map_elements(self._round, value.array)
        return replace(value, dtype=self.dtype, data=self._cast[key])

    def _round(self, array: Array) -> Array:
        return array.astype(self.dtype.numpy)


def precision_loss(op: Op, constants: Sequence[Value], *, beside_weights: bool = False) -> str | None:
    """The damage that float16 would do to the constants of a primitive, or None.

    ``beside_weights``: the constants are added to what weights of 8 bits make, so that small ones may lose digits.
    """
    largest = max([0.0, *map(_largest, constants)])
    largest = max([largest, *(_magnitude(op, item.name) for item in fields(op))])
    if largest > LARGEST:
        return f"float16 ends at {LARGEST:.0f}, and some numbers here reach {largest:.3g}"
    if 0 < largest < SMALLEST and not beside_weights:
        return f"float16 loses digits below {SMALLEST:.2g}, and the largest number here is {largest:.2g}"
    return None


def _largest(value: Value) -> float:
    """The largest magnitude of finite numbers."""
    data = unbroadcast(value.array)
    largest = max(float(data.max(initial=0)), -float(data.min(initial=0)))
    return largest if np.isfinite(largest) else float(np.abs(data[np.isfinite(data)]).max(initial=0))


def _magnitude(op: Op, name: str) -> float:
    """For an attribute that is a float. A whole number counts places; an infinite one is also infinite in float16."""
    attribute = getattr(op, name)
    is_number = isinstance(attribute, float) and np.isfinite(attribute)
    return abs(attribute) if is_number else 0.0
