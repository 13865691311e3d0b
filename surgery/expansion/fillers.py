"""Constant fillers. Caffe keeps their numbers for blobs that the weights file lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.ir import Array

WIDEST = 1024
"""The largest bilinear filler: a net of a few lines must not take gigabytes."""


def filled(filler: Any, sizes: tuple[int, ...]) -> Array | None:
    """The numbers of the filler; None if there is no filler, or if it draws random numbers.

    Source: caffe ``include/caffe/filler.hpp``.
    """
    if filler is None or filler.type not in ("constant", "bilinear"):
        return None
    if filler.type == "constant":
        return np.broadcast_to(np.float32(filler.value), sizes)
    if len(sizes) != 4 or sizes[2] != sizes[3]:
        raise ShapeError(
            f"shape is {sizes}, expected four axes, the last two of equal size",
            because="its filler is bilinear",
            fix="use the filler constant, or a square kernel",
        )
    if sizes[3] > WIDEST:
        raise ShapeError(
            f"shape is {sizes}, expected at most {WIDEST} x {WIDEST}",
            because="its bilinear filler is stored element by element",
            fix="store the numbers in the weights file",
        )
    tent = _tent(sizes[3])
    return np.broadcast_to(np.outer(tent, tent).astype(np.float32), sizes)


def described(filler: Any) -> str:
    """A filler in words, as in ``the filler value 0.5``."""
    return f"the filler value {filler.value:g}" if filler.type == "constant" else f"what is {filler.type}"


def _tent(size: int) -> Array:
    """Weights that interpolate between two neighbours, ``size`` of them."""
    factor = -(-size // 2)
    center = (size - 1) / (2 * factor)
    return np.asarray(1 - np.abs(np.arange(size) / factor - center))
