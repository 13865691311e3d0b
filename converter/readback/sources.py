"""Layers that make a tensor out of nothing: constant and fill."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.errors import UnsupportedLayerError
from prototrt.converter.readback.registry import Array, Evaluate, Layer, evaluates, integers, weights_array


@evaluates("CONSTANT")
def constant(layer: Layer) -> Evaluate:
    shape = tuple(layer.shape)
    flat = weights_array(layer.weights)
    value = np.zeros(shape, np.asarray(layer.weights).dtype) if flat is None else flat.reshape(shape)
    return lambda: value


@evaluates("FILL")
def fill(layer: Layer) -> Evaluate:
    """``alpha`` in the first element; ``beta`` more for each step, one number for each axis.

    Shape, alpha and beta may come as inputs instead.
    """
    if layer.operation.name != "LINSPACE":
        raise UnsupportedLayerError(
            f"fills of kind {layer.operation.name} are random: there is nothing to compare"
        )
    static_shape = None if layer.shape is None else tuple(layer.shape)
    static_alpha, static_beta = np.array(layer.alpha), np.array(layer.beta)
    held = np.float32 if layer.to_type.name in ("FLOAT", "HALF", "BF16") else np.int64

    def evaluate(shape: Array | None = None, alpha: Array | None = None, beta: Array | None = None) -> Array:
        sizes = static_shape if shape is None else integers(shape)
        assert sizes is not None
        steps = np.atleast_1d(static_beta if beta is None else beta)
        if len(steps) != len(sizes):
            raise ValueError(f"there are {len(steps)} deltas for the shape {sizes}")
        y = static_alpha if alpha is None else alpha
        for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            y = y + (step * np.arange(size)).reshape(-1, *(1,) * (len(sizes) - 1 - axis))
        return y.astype(held)

    return evaluate
