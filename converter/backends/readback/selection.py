"""What chooses or places elements: by a condition, or by an index."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    Shape,
    evaluates,
)


@evaluates("SELECT")
def select(layer: Layer) -> Evaluate:
    return lambda condition, then, otherwise: np.where(condition, then, otherwise)


@evaluates("GATHER")
def gather(layer: Layer) -> Evaluate:
    """Elements of the first input by the indices in the second. Outside, TensorRT reads 0.

    A negative index counts from the end of an axis of known length, and is undefined on a dynamic one.
    """
    mode, axis, elementwise = layer.mode.name, layer.axis, layer.num_elementwise_dims
    declared = tuple(layer.get_input(0).shape)
    if mode == "ND":
        return lambda data, indices: _gather_nd(data, indices, elementwise, declared)
    if mode == "ELEMENT":
        return lambda data, indices: _gather_element(data, indices, axis % data.ndim, declared)
    if elementwise:
        return lambda data, indices: _gather_batched(data, indices, axis % data.ndim, declared)
    return lambda data, indices: _gather_axis(data, indices, axis % data.ndim, declared[axis])


def _places_inside(indices: Array, length: int, declared: int) -> tuple[Array, Array]:
    """The indices, with 0 for those outside, and whether each one is inside."""
    if declared == -1 and np.any(indices < 0):
        raise IndexError("a negative index into a dynamic axis is undefined in TensorRT")
    counted = np.where(indices < 0, indices + length, indices)
    inside = (counted >= 0) & (counted < length)
    return np.where(inside, counted, 0), inside


def _gather_axis(data: Array, indices: Array, axis: int, declared: int) -> Array:
    places, inside = _places_inside(indices, data.shape[axis], declared)
    y = np.take(data, places, axis)
    if inside.all():
        return y
    return np.where(inside.reshape(inside.shape + (1,) * (data.ndim - 1 - axis)), y, np.zeros((), data.dtype))


def _gather_batched(data: Array, indices: Array, axis: int, declared: Shape) -> Array:
    """The first axis of both is the batch, which may stretch."""
    batch = max(data.shape[0], indices.shape[0])
    rows = np.broadcast_to(data, (batch, *data.shape[1:]))
    chosen = np.broadcast_to(indices, (batch, *indices.shape[1:]))
    pairs = zip(rows, chosen, strict=True)
    return np.stack([_gather_axis(row, places, axis - 1, declared[axis]) for row, places in pairs])


def _gather_element(data: Array, indices: Array, axis: int, declared: Shape) -> Array:
    places, inside = _places_inside(indices, data.shape[axis], declared[axis])
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = places
    return np.where(inside, data[tuple(grid)], np.zeros((), data.dtype))


def _gather_nd(data: Array, indices: Array, elementwise: int, declared: Shape) -> Array:
    """The last axis of ``indices`` holds the coordinates, which begin after the elementwise axes."""
    depth = indices.shape[-1]
    grid: list[Array] = list(np.indices(indices.shape[:-1], sparse=True))[:elementwise]
    all_inside = np.ones(indices.shape[:-1], np.bool_)
    for axis in range(elementwise, elementwise + depth):
        places, inside = _places_inside(indices[..., axis - elementwise], data.shape[axis], declared[axis])
        grid.append(places)
        all_inside &= inside
    y = data[tuple(np.broadcast_arrays(*grid))]
    rest = (1,) * (y.ndim - all_inside.ndim)
    return np.where(all_inside.reshape(all_inside.shape + rest), y, np.zeros((), data.dtype))


@evaluates("SCATTER")
def scatter(layer: Layer) -> Evaluate:
    """A copy of the first input with the updates (third) at the indices (second) along an axis."""
    if layer.mode.name != "ELEMENT":
        raise UnsupportedLayerError(f"scattering of kind {layer.mode.name} has no rule here")
    axis = layer.axis

    def evaluate(data: Array, indices: Array, updates: Array) -> Array:
        y = data.copy()
        np.put_along_axis(y, indices, updates, axis)
        return y

    return evaluate
