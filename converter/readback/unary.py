"""Functions of one tensor, element by element, and what only changes its type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from prototrt.caffe_proto.errors import ConversionError
from prototrt.converter.readback.registry import Array, Evaluate, Layer, evaluates

_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    """Gauss's error function, which numpy has not got."""
    return np.asarray(_erf(x), np.float32)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "ACOS": np.arccos,
    "ACOSH": np.arccosh,
    "ASIN": np.arcsin,
    "ASINH": np.arcsinh,
    "ATAN": np.arctan,
    "ATANH": np.arctanh,
    "CEIL": np.ceil,
    "COS": np.cos,
    "COSH": np.cosh,
    "ERF": erf,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "ISINF": np.isinf,
    "ISNAN": np.isnan,
    "LOG": np.log,
    "NEG": np.negative,
    "NOT": np.logical_not,
    "RECIP": lambda x: 1 / x,
    "ROUND": np.rint,  # halves to even
    "SIGN": np.sign,
    "SIN": np.sin,
    "SINH": np.sinh,
    "SQRT": np.sqrt,
    "TAN": np.tan,
}


@evaluates("UNARY")
def unary(layer: Layer) -> Evaluate:
    return _FUNCTIONS[layer.op.name]


@evaluates("IDENTITY")
def identity(layer: Layer) -> Evaluate:
    return lambda x: x


_CAST_TO = {"INT8": np.int8, "UINT8": np.uint8, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}


@evaluates("CAST")
def cast(layer: Layer) -> Evaluate:
    """To integers towards zero, to booleans by "is not 0". HALF and BF16 round when the tensor is stored."""
    dtype = _CAST_TO.get(layer.to_type.name, np.float32)
    return lambda x: x.astype(dtype)


@evaluates("ASSERTION")
def assertion(layer: Layer) -> Evaluate:
    message = layer.message

    def evaluate(condition: Array) -> tuple[Array, ...]:
        if not np.all(condition):
            raise ConversionError(f"the network's own assertion does not hold: {message}")
        return ()

    return evaluate
