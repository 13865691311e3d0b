"""Layers that make values comparable: scale, softmax, LRN."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    axes_of_mask,
    evaluates,
    refuse_other_kind,
    weights_array,
)


@evaluates("SCALE")
def scale(layer: Layer) -> Evaluate:
    """``factor * x + shift``, with one of each for a channel."""
    refuse_other_kind(layer.mode, "CHANNEL", "a scale")
    axis = layer.channel_axis
    factor, shift, power = map(weights_array, (layer.scale, layer.shift, layer.power))
    if factor is None or shift is None or power is not None:
        raise UnsupportedLayerError("scales without a factor or a shift, or with a power, have no rule here")

    def evaluate(x: Array) -> Array:
        shape = (x.shape[axis], *(1,) * (x.ndim - 1 - axis))
        return x * factor.reshape(shape) + shift.reshape(shape)

    return evaluate


@evaluates("SOFTMAX")
def softmax(layer: Layer) -> Evaluate:
    axes = axes_of_mask(layer.axes)

    def evaluate(x: Array) -> Array:
        powers = np.exp(x - x.max(axes, keepdims=True))
        return np.asarray(powers / powers.sum(axes, keepdims=True))

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
