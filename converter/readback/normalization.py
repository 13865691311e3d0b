"""Layers that make values comparable: normalization, softmax, LRN."""

from __future__ import annotations

import numpy as np

from prototrt.converter.readback.registry import Array, Evaluate, Layer, Shape, axes_of_mask, evaluates


@evaluates("NORMALIZATION")
def normalization(layer: Layer) -> Evaluate:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over the axes, for each group of channels."""
    axes, groups, epsilon = axes_of_mask(layer.axes), layer.num_groups, layer.epsilon

    def evaluate(x: Array, scale: Array, bias: Array) -> Array:
        y = _normalized(x, axes, groups, epsilon)
        return y * _for_each_channel(scale, x, groups) + _for_each_channel(bias, x, groups)

    return evaluate


def _normalized(x: Array, axes: Shape, groups: int, epsilon: float) -> Array:
    if groups != 1:
        grouped = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
        inside = {2, *(axis + 1 for axis in axes if axis > 1)}
        return _normalized(grouped, tuple(sorted(inside)), 1, epsilon).reshape(x.shape)
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    y: Array = (wide - mean) / np.sqrt(variance + epsilon)
    return y


def _for_each_channel(factor: Array, x: Array, groups: int) -> Array:
    """The first form of the layer has one factor for each group, the second one for each channel."""
    if groups != 1 and factor.shape[1] == groups:
        return np.repeat(factor, x.shape[1] // groups, axis=1)
    return factor


@evaluates("SOFTMAX")
def softmax(layer: Layer) -> Evaluate:
    axes = axes_of_mask(layer.axes)
    return lambda x: _softmax(x, axes)


def _softmax(x: Array, axes: Shape) -> Array:
    powers = np.exp(x - x.max(axes, keepdims=True))
    y: Array = powers / powers.sum(axes, keepdims=True)
    return y


@evaluates("RAGGED_SOFTMAX")
def ragged_softmax(layer: Layer) -> Evaluate:
    """Softmax along the last axis over the first ``bounds`` elements; the others become 0."""

    def evaluate(x: Array, bounds: Array) -> Array:
        inside = np.arange(x.shape[-1]) < bounds
        y = _softmax(np.where(inside, x, -np.inf), (x.ndim - 1,))
        return np.where(inside, y, 0)

    return evaluate


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
