"""The numbers of stored blobs: which fillers Caffe keeps, and which are NaN or infinite."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.ir import Array

WIDEST = 1024
"""The largest bilinear filler: a net of a few lines must not take gigabytes."""


def filler_numbers(filler: Any, sizes: tuple[int, ...]) -> Array | None:
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
            fix="use smaller sizes",
        )
    tent = _tent(sizes[3])
    return np.broadcast_to(np.outer(tent, tent).astype(np.float32), sizes)


def filler_text(filler: Any) -> str:
    """A filler in words, as in ``the filler value 0.5``."""
    return f"the filler value {filler.value:g}" if filler.type == "constant" else f"what is {filler.type}"


def _tent(size: int) -> Array:
    """Weights that interpolate between two neighbours, ``size`` of them."""
    factor = -(-size // 2)
    center = (size - 1) / (2 * factor)
    return np.asarray(1 - np.abs(np.arange(size) / factor - center))


_CHUNK = 1 << 16  # numbers that fit a processor's cache, so that memory is read once


def count_not_finite(array: Array) -> int:
    """The number of NaN or infinite elements. If there are none, memory bandwidth is the only limit.

    A chunk's product with itself is finite only if all of its numbers are finite.
    """
    flat = array.reshape(-1)
    with np.errstate(all="ignore"):
        return sum(_count(flat[start : start + _CHUNK]) for start in range(0, flat.size, _CHUNK))


def _count(chunk: Array) -> int:
    if not chunk.flags.aligned and chunk.flags.c_contiguous:
        # Numbers in a mapped file may be unaligned. A copy as bytes takes a fifth of numpy's time.
        chunk = chunk.view(np.uint8).copy().view(chunk.dtype)
    if np.isfinite(np.dot(chunk, chunk)):
        return 0
    return chunk.size - int(np.count_nonzero(np.isfinite(chunk)))  # squares of finite numbers may overflow
