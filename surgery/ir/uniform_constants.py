"""Constants that repeat one number and store it once: fillers, and placeholders for missing weights.

A net of a few lines may need gigabytes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.surgery.ir.made_arrays import join_of, sum_of

MOST_WRITTEN_OUT = 1 << 16
"""The limit for constants that do not repeat one number: a net of a few lines must not take gigabytes."""


def is_broadcast(array: Array) -> bool:
    """Whether the array is a broadcast of one number."""
    return array.size > 0 and not any(array.strides)


def unbroadcast(array: Array) -> Array:
    """The array, or its one number if it is a broadcast of a single number."""
    return array[(slice(1),) * array.ndim] if is_broadcast(array) else array


def memory_of(array: Array) -> tuple[object, ...]:
    """Equal for arrays that view the same numbers: layers may share weights, and copies of a step do."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def are_equal(a: Array, b: Array) -> bool:
    """Whether two arrays hold the same numbers. A repeated number is compared once."""
    if a.shape == b.shape and is_broadcast(a) and is_broadcast(b):
        a, b = unbroadcast(a), unbroadcast(b)
    return np.array_equal(a, b)


def map_elements(function: Callable[..., Array], *arrays: Array) -> Array:
    """Apply an element-wise function to arrays. A repeated number is computed once."""
    if not all(map(is_broadcast, arrays)):
        return function(*arrays)
    once = function(*map(unbroadcast, arrays))
    return np.broadcast_to(once.reshape(()), np.broadcast_shapes(*(array.shape for array in arrays)))


def scaled(array: Array, factor: float = 1.0, summand: float = 0.0) -> Array:
    """``factor * array + summand``."""
    if is_broadcast(array):
        return map_elements(lambda each: each * np.float32(factor) + np.float32(summand), array)
    return sum_of(array, factor=factor, summand=summand)


def total(a: Array, b: Array) -> Array:
    """The sum of two arrays of one shape."""
    return map_elements(np.add, a, b) if is_broadcast(a) and is_broadcast(b) else sum_of(a, b)


def concatenate(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Several arrays concatenated along an axis, by default axis 0."""
    first = arrays[0][(0,) * arrays[0].ndim]
    if all(is_broadcast(array) and array[(0,) * array.ndim] == first for array in arrays):
        shape = arrays[0].shape
        total = sum(array.shape[axis] for array in arrays)
        return np.broadcast_to(first, (*shape[:axis], total, *shape[axis + 1 :]))
    return join_of(arrays, axis)
