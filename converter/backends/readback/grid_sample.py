"""Sampling an image at the places of a grid."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates


@evaluates("GRID_SAMPLE")
def grid_sample(layer: Layer) -> Evaluate:
    """Image (N C H W), grid (N P Q 2) of places (x, y): -1 and 1 are the image's borders.

    With ``align_corners`` the borders are the centers of the outermost elements, otherwise their edges.
    """
    interpolation, mode = layer.interpolation_mode.name, layer.sample_mode.name
    align = bool(layer.align_corners)
    if interpolation not in ("NEAREST", "LINEAR"):
        raise UnsupportedLayerError(f"interpolation of kind {interpolation} has no rule here")

    def evaluate(image: Array, grid: Array) -> Array:
        if image.ndim != 4:
            raise UnsupportedLayerError(f"grids over images of {image.ndim - 2} axes have no rule here")
        wide = grid.astype(np.float64)
        x, y = (
            _places_inside(_place(wide[..., k], length, align), length, mode, align)
            for k, length in enumerate((image.shape[3], image.shape[2]))
        )
        return _nearest(image, x, y) if interpolation == "NEAREST" else _linear(image, x, y)

    return evaluate


def _place(relative: Array, length: int, align: bool) -> Array:
    return np.asarray((relative + 1) / 2 * (length - 1) if align else ((relative + 1) * length - 1) / 2)


def _places_inside(places: Array, length: int, mode: str, align: bool) -> Array:
    """Places outside brought inside, unless they are to be filled with 0."""
    if mode == "REFLECT":
        low, span = (0.0, length - 1.0) if align else (-0.5, float(length))
        distance = np.abs(places - low) % (2 * span) if span else np.zeros_like(places)
        places = low + np.minimum(distance, 2 * span - distance)
    return places if mode == "FILL" else np.clip(places, 0, length - 1)


def _nearest(image: Array, x: Array, y: Array) -> Array:
    return _pick(image, np.rint(x).astype(np.int64), np.rint(y).astype(np.int64))


def _linear(image: Array, x: Array, y: Array) -> Array:
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    right_share, bottom_share = (x - left)[:, np.newaxis], (y - top)[:, np.newaxis]
    upper = _pick(image, left, top) * (1 - right_share) + _pick(image, left + 1, top) * right_share
    lower = _pick(image, left, top + 1) * (1 - right_share) + _pick(image, left + 1, top + 1) * right_share
    return np.asarray(upper * (1 - bottom_share) + lower * bottom_share)


def _pick(image: Array, x: Array, y: Array) -> Array:
    """The elements (N C P Q) at whole places; 0 outside."""
    height, width = image.shape[2:]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    x, y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
    samples = [one[:, rows, columns] for one, rows, columns in zip(image, y, x, strict=True)]
    return np.where(inside[:, np.newaxis], np.stack(samples), np.zeros((), image.dtype))
