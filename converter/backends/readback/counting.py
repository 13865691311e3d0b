"""What is filled with numbers that are counted: fill."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    evaluates,
    integers,
    refuse_other_kind,
)


@evaluates("FILL")
def fill(layer: Layer) -> Evaluate:
    """LINSPACE along one axis: ``alpha + beta * place``. The shape, alpha and beta are inputs."""
    refuse_other_kind(layer.operation, "LINSPACE", "filling")

    def evaluate(shape: Array, alpha: Array, beta: Array) -> Array:
        (size,) = integers(shape)
        return np.asarray(alpha + beta * np.arange(size), alpha.dtype)

    return evaluate
