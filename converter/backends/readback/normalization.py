"""Layers that make values comparable: scale, softmax, LRN."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    Shape,
    axes_of_mask,
    evaluates,
    weights_array,
)


@evaluates("SCALE")
def scale(layer: Layer) -> Evaluate:
    mode, axis = layer.mode.name, layer.channel_axis
    factor, shift, power = map(weights_array, (layer.scale, layer.shift, layer.power))

    def evaluate(x: Array) -> Array:
        shape = _factor_shape(mode, axis, x.shape)
        y = x if factor is None else x * factor.reshape(shape)
        y = y if shift is None else y + shift.reshape(shape)
        return y if power is None else np.power(y, power.reshape(shape))

    return evaluate


def _factor_shape(mode: str, axis: int, shape: Shape) -> Shape:
    if mode == "UNIFORM":
        return (1,) * len(shape)
    if mode == "CHANNEL":
        return (shape[axis], *(1,) * (len(shape) - 1 - axis))
    return shape[axis:]


@evaluates("SOFTMAX")
def softmax(layer: Layer) -> Evaluate:
    axes = axes_of_mask(layer.axes)
    return lambda x: _softmax(x, axes)


def _softmax(x: Array, axes: Shape) -> Array:
    powers = np.exp(x - x.max(axes, keepdims=True))
    y: Array = powers / powers.sum(axes, keepdims=True)
    return y


@evaluates("LRN")
def lrn(layer: Layer) -> Evaluate:
    """``x / (k + alpha / window * sum of squares)^beta``, the sum over the channels (axis 1) around x's own.

    NVIDIA's operator page prints the formula without the division by the window; its example has it,
    at the edges too.
    """
    window, alpha, beta, k = int(layer.window_size), float(layer.alpha), float(layer.beta), float(layer.k)

    def evaluate(x: Array) -> Array:
        half, channels = window // 2, x.shape[1]
        squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), (half, half)] + [(0, 0)] * (x.ndim - 2))
        total = sum(squares[:, i : i + channels] for i in range(window))
        return x / (k + alpha / window * total) ** beta

    return evaluate
