"""Functions of two or three tensors of one rank. A dimension of 1 stretches to its partner's size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prototrt.converter.readback.registry import Array, Evaluate, Layer, evaluates


def _divided(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    # Integers go towards zero, as C++ has it.
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _max(a: Array, b: Array) -> Array:
    """TensorRT does not say what it makes of NaN. C's ``a > b ? a : b`` is what Caffe computes."""
    return np.where(a > b, a, b)


def _min(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "AND": np.logical_and,
    "DIV": _divided,
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
    "XOR": np.logical_xor,
}


@evaluates("ELEMENTWISE")
def elementwise(layer: Layer) -> Evaluate:
    function = _FUNCTIONS[layer.op.name]

    def evaluate(a: Array, b: Array) -> Array:
        if a.ndim != b.ndim:
            raise ValueError(f"the operands have shapes {a.shape} and {b.shape}, but ranks must be equal")
        return function(a, b)

    return evaluate


@evaluates("SELECT")
def select(layer: Layer) -> Evaluate:
    return lambda condition, then, otherwise: np.where(condition, then, otherwise)
