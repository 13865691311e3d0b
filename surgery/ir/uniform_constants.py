"""Constants that are one number everywhere, and take the room of one: fillers, and what stands for weights
that were not given. A net of a few lines may ask for gigabytes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from prototrt.surgery.ir import Array

MOST_WRITTEN_OUT = 1 << 16
"""Numbers that are no longer one number everywhere, where a net of a few lines asks for them."""


def is_repeated(array: Array) -> bool:
    """Whether the array is one number, seen from everywhere."""
    return array.size > 0 and not any(array.strides)


def seen_once(array: Array) -> Array:
    """The array, or the one number that is seen from everywhere."""
    return array[(slice(1),) * array.ndim] if is_repeated(array) else array


def are_equal(a: Array, b: Array) -> bool:
    """Whether two arrays hold the same numbers; of repeated ones, one is compared."""
    if a.shape == b.shape and is_repeated(a) and is_repeated(b):
        a, b = seen_once(a), seen_once(b)
    return np.array_equal(a, b)


def map_elements(function: Callable[..., Array], *arrays: Array) -> Array:
    """What an element-wise function makes of arrays; of repeated numbers, computed once."""
    if not all(map(is_repeated, arrays)):
        return function(*arrays)
    once = function(*map(seen_once, arrays))
    return np.broadcast_to(once.reshape(()), np.broadcast_shapes(*(array.shape for array in arrays)))


def stacked(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Several arrays one behind the other along an axis, by default their rows."""
    first = arrays[0][(0,) * arrays[0].ndim]
    if all(is_repeated(array) and array[(0,) * array.ndim] == first for array in arrays):
        shape = arrays[0].shape
        total = sum(array.shape[axis] for array in arrays)
        return np.broadcast_to(first, (*shape[:axis], total, *shape[axis + 1 :]))
    return np.concatenate(arrays, axis)
