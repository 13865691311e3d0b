"""Interpolation to another size."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, Shape, evaluates, integers

_ORIGINAL: dict[str, Callable[[Array, int, int], Array]] = {
    "ALIGN_CORNERS": lambda x, length, resized: x * (length - 1) / max(1, resized - 1),
    "ASYMMETRIC": lambda x, length, resized: x * length / resized,
    "HALF_PIXEL": lambda x, length, resized: (x + 0.5) * length / resized - 0.5,
}

_ROUNDED: dict[str, Callable[[Array], Array]] = {
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "HALF_DOWN": lambda x: np.ceil(x - 0.5),
    "HALF_UP": lambda x: np.floor(x + 0.5),
}


@evaluates("RESIZE")
def resize(layer: Layer) -> Evaluate:
    """Each axis in its turn. Coordinates are computed from the lengths, as TensorRT documents them."""
    kind = layer.resize_mode.name
    if kind not in ("NEAREST", "LINEAR"):
        raise UnsupportedLayerError(f"resizing of kind {kind} has no rule here")
    static, scales = None if layer.shape is None else tuple(layer.shape), tuple(layer.scales)
    original, rounded = _ORIGINAL[layer.coordinate_transformation.name], _ROUNDED[layer.nearest_rounding.name]
    upper = layer.selector_for_single_pixel.name == "UPPER"

    def evaluate(x: Array, dynamic: Array | None = None) -> Array:
        sizes = integers(dynamic) if dynamic is not None else static or _scale(x.shape, scales)
        y = x
        for axis, size in enumerate(sizes):
            if size == x.shape[axis]:
                continue
            places = np.zeros(1) if upper and size == 1 else original(np.arange(size), x.shape[axis], size)
            y = _linear(y, axis, places) if kind == "LINEAR" else _nearest(y, axis, rounded(places))
        return y

    return evaluate


def _scale(shape: Shape, scales: tuple[float, ...]) -> Shape:
    exact = [size * scale for size, scale in zip(shape, scales, strict=True)]
    if any(size != math.floor(size) for size in exact):
        raise UnsupportedLayerError(
            f"scales {scales} do not fit the shape {shape} evenly",
            because="TensorRT does not document which coordinates follow",
            fix="give the resize layer the output shape instead of scales",
        )
    return integers(exact)


def _nearest(x: Array, axis: int, places: Array) -> Array:
    return np.take(x, np.clip(places, 0, x.shape[axis] - 1).astype(np.int64), axis)


def _linear(x: Array, axis: int, places: Array) -> Array:
    places = np.clip(places, 0, x.shape[axis] - 1)
    low = np.floor(places)
    share = (places - low).astype(np.float32).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return _nearest(x, axis, low) * (1 - share) + _nearest(x, axis, low + 1) * share
