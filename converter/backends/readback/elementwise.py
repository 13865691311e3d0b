"""Functions of one tensor or of two, element by element, and what only changes the type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    evaluates,
    kind_among,
    open_for_nan,
)


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    # Integers go towards zero, as C++ has it.
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


@open_for_nan
def _max(a: Array, b: Array) -> Array:
    """C's ``a > b ? a : b``."""
    return np.where(a > b, a, b)


@open_for_nan
def _min(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "AND": np.logical_and,
    "DIV": _divide,
    "EQUAL": np.equal,
    "FLOOR_DIV": np.floor_divide,
    "GREATER": np.greater,
    "LESS": np.less,
    "MAX": _max,
    "MIN": _min,
    "OR": np.logical_or,
    "POW": np.power,
    "PROD": np.multiply,
    "SUB": np.subtract,
    "SUM": np.add,
}


@evaluates("ELEMENTWISE")
def elementwise(layer: Layer) -> Evaluate:
    function = kind_among(_BINARY, layer.op, "a function of two elements")

    def evaluate(a: Array, b: Array) -> Array:
        if a.ndim != b.ndim:
            raise ValueError(f"the operands have shapes {a.shape} and {b.shape}, but ranks must be equal")
        return function(a, b)

    return evaluate


_erf = np.vectorize(math.erf, otypes=[np.float64])
_UNARY: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": np.cos,
    "ERF": lambda x: np.asarray(_erf(x), np.float32),
    "EXP": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "NEG": np.negative,
    "NOT": np.logical_not,
    "RECIP": lambda x: 1 / x,
    "SIGN": np.sign,
    "SIN": np.sin,
    "SQRT": np.sqrt,
}


@evaluates("UNARY")
def unary(layer: Layer) -> Evaluate:
    return kind_among(_UNARY, layer.op, "a function of one element")


@evaluates("IDENTITY")
def identity(layer: Layer) -> Evaluate:
    return lambda x: x


_CAST_TO = {"INT8": np.int8, "UINT8": np.uint8, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}


@evaluates("CAST")
def cast(layer: Layer) -> Evaluate:
    """To integers towards zero, to booleans by "is not 0". HALF and BF16 round when the tensor is stored."""
    dtype = _CAST_TO.get(layer.to_type.name, np.float32)
    return lambda x: x.astype(dtype)
