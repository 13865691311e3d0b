"""Interpolation to another size."""

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


@evaluates("RESIZE")
def resize(layer: Layer) -> Evaluate:
    """Each axis in its turn: the first and the last elements keep their places, a single one is the first.

    The sizes may be the second input.
    """
    refuse_other_kind(layer.resize_mode, "LINEAR", "resizing")
    refuse_other_kind(layer.coordinate_transformation, "ALIGN_CORNERS", "resizing")
    static = None if layer.shape is None else tuple(layer.shape)

    def evaluate(x: Array, dynamic: Array | None = None) -> Array:
        y = x
        for axis, size in enumerate(static or () if dynamic is None else integers(dynamic)):
            if size != x.shape[axis]:
                y = _linear(y, axis, np.arange(size) * (x.shape[axis] - 1) / max(1, size - 1))
        return y

    return evaluate


def _linear(x: Array, axis: int, places: Array) -> Array:
    low = np.floor(places)
    share = (places - low).astype(np.float32).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return _nearest(x, axis, low) * (1 - share) + _nearest(x, axis, low + 1) * share


def _nearest(x: Array, axis: int, places: Array) -> Array:
    return np.take(x, np.clip(places, 0, x.shape[axis] - 1).astype(np.int64), axis)
