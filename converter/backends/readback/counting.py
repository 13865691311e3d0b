"""What is filled with numbers that are counted: fill."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates, integers


@evaluates("FILL")
def fill(layer: Layer) -> Evaluate:
    """LINSPACE along one axis: ``alpha + beta * place``. The shape, alpha and beta are inputs."""
    if layer.operation.name != "LINSPACE":
        raise UnsupportedLayerError(f"filling of kind {layer.operation.name} has no rule here")

    def evaluate(shape: Array, alpha: Array, beta: Array) -> Array:
        (size,) = integers(shape)
        return np.asarray(alpha + beta * np.arange(size), alpha.dtype)

    return evaluate
