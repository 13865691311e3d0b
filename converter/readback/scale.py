"""``(x * scale + shift)^power``, the factors for all of the tensor, for each channel or for each element."""

from __future__ import annotations

import numpy as np

from prototrt.converter.readback.registry import Array, Evaluate, Layer, Shape, evaluates, weights_array


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
