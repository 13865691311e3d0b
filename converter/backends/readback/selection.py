"""What chooses or places elements: by a condition, or by an index."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    evaluates,
    refuse_other_kind,
)


@evaluates("SELECT")
def select(layer: Layer) -> Evaluate:
    return lambda condition, then, otherwise: np.where(condition, then, otherwise)


@evaluates("GATHER")
def gather(layer: Layer) -> Evaluate:
    """Elements of the first input, along an axis, by the indices in the second. Outside, TensorRT reads 0.

    A negative index counts from the end of an axis of known length, and is undefined on a dynamic one.
    """
    refuse_other_kind(layer.mode, "DEFAULT", "a gather")
    axis, declared = layer.axis, layer.get_input(0).shape[layer.axis]
    if layer.num_elementwise_dims:
        raise UnsupportedLayerError("a gather along a batch has no rule here")

    def evaluate(data: Array, indices: Array) -> Array:
        length = data.shape[axis]
        if declared == -1 and np.any(indices < 0):
            raise IndexError("a negative index into a dynamic axis is undefined in TensorRT")
        counted = np.where(indices < 0, indices + length, indices)
        inside = (counted >= 0) & (counted < length)
        y = np.take(data, np.where(inside, counted, 0), axis)
        if inside.all():
            return y
        return np.where(inside.reshape(inside.shape + (1,) * (data.ndim - 1 - axis)), y, y.dtype.type(0))

    return evaluate


@evaluates("SCATTER")
def scatter(layer: Layer) -> Evaluate:
    """A copy of the first input with the updates (third) at the indices (second) along an axis."""
    refuse_other_kind(layer.mode, "ELEMENT", "scattering")
    axis = layer.axis

    def evaluate(data: Array, indices: Array, updates: Array) -> Array:
        y = data.copy()
        np.put_along_axis(y, indices, updates, axis)
        return y

    return evaluate
