"""Products of matrices."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates, kind_among

_IS_TRANSPOSED = {"NONE": False, "TRANSPOSE": True}


@evaluates("MATRIX_MULTIPLY")
def matrix_multiply(layer: Layer) -> Evaluate:
    """Operands of higher rank are collections of matrices; a 1 in their shape stretches."""
    turned = [kind_among(_IS_TRANSPOSED, op, "an operand") for op in (layer.op0, layer.op1)]

    def evaluate(*operands: Array) -> Array:
        a, b = (np.swapaxes(x, -1, -2) if turn else x for x, turn in zip(operands, turned, strict=True))
        return np.asarray(np.matmul(a, b))

    return evaluate
