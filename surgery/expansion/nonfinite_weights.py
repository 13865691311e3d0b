"""NaN and infinity among stored weights."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.ir import Array

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
