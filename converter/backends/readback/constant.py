"""Weights that are a tensor."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Evaluate,
    Layer,
    evaluates,
    weights_array,
)


@evaluates("CONSTANT")
def constant(layer: Layer) -> Evaluate:
    shape = tuple(layer.shape)
    flat = weights_array(layer.weights)
    value = np.zeros(shape, np.asarray(layer.weights).dtype) if flat is None else flat.reshape(shape)
    return lambda: value
