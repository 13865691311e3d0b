"""Pooling over two or three spatial axes. A window is a box, so each axis is pooled in its turn."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates, kind_among
from prototrt.converter.backends.readback.windows import Window, WindowSteps, pad, windows_along


@evaluates("POOLING")
def pooling(layer: Layer) -> Evaluate:
    window = Window.of(layer, tuple(layer.window_size_nd))
    exclusive = bool(layer.average_count_excludes_padding)
    is_maximum = kind_among({"MAX": True, "AVERAGE": False}, layer.type, "a pooling")

    def evaluate(x: Array) -> Array:
        walks = window.walks(x.shape[x.ndim - len(window.size) :])
        return _maximum(x, walks) if is_maximum else _average(x, walks, exclusive)

    return evaluate


def _maximum(x: Array, walks: list[WindowSteps]) -> Array:
    y = pad(x, walks, -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min)
    for axis, walk in enumerate(walks, x.ndim - len(walks)):
        y = windows_along(y, axis, walk).max(-1)
    return y


def _average(x: Array, walks: list[WindowSteps], exclusive: bool) -> Array:
    """Divided by the part of the window over the input, or over the padded input."""
    y = pad(x, walks, 0)
    for axis, walk in enumerate(walks, x.ndim - len(walks)):
        low, high = (0, walk.length) if exclusive else (-walk.before, walk.length + walk.after)
        count = walk.overlap(low, high).astype(np.float32)
        total = windows_along(y, axis, walk).sum(-1, dtype=np.float64)
        y = total / count.reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return y
