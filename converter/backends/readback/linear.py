"""Products of matrices and vectors."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    evaluates,
)


@evaluates("MATRIX_MULTIPLY")
def matrix_multiply(layer: Layer) -> Evaluate:
    """Operands of higher rank are collections of matrices or vectors; a 1 in their shape stretches."""
    op0, op1 = layer.op0.name, layer.op1.name

    def evaluate(a: Array, b: Array) -> Array:
        y: Array = np.matmul(_as_matrix(a, op0, -2), _as_matrix(b, op1, -1))
        if op1 == "VECTOR":
            y = y[..., 0]
        if op0 == "VECTOR":
            y = y[..., 0] if op1 == "VECTOR" else y[..., 0, :]
        return y

    return evaluate


def _as_matrix(x: Array, op: str, vector_axis: int) -> Array:
    if op == "VECTOR":
        return np.expand_dims(x, vector_axis)
    return np.swapaxes(x, -1, -2) if op == "TRANSPOSE" else x
