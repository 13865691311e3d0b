"""What picks or places elements by index: gather, scatter, one-hot, non-zero."""

from __future__ import annotations

import numpy as np

from prototrt.converter.readback.registry import Array, Evaluate, Layer, Shape, evaluates


@evaluates("GATHER")
def gather(layer: Layer) -> Evaluate:
    """Elements of the first input by the indices in the second. Outside, TensorRT reads 0.

    A negative index counts from the end of an axis of known length, and is undefined on a dynamic one.
    """
    mode, axis, elementwise = layer.mode.name, layer.axis, layer.num_elementwise_dims
    known = tuple(layer.get_input(0).shape)
    if mode == "ND":
        return lambda data, indices: _gather_nd(data, indices, elementwise, known)
    if mode == "ELEMENT":
        return lambda data, indices: _gather_element(data, indices, axis % data.ndim, known)
    if elementwise:
        return lambda data, indices: _gather_batched(data, indices, axis % data.ndim, known)
    return lambda data, indices: _gather_axis(data, indices, axis % data.ndim, known[axis])


def _inside(indices: Array, length: int, known: int) -> tuple[Array, Array]:
    """The indices, those outside replaced by 0, and which of them lie inside."""
    if known == -1 and np.any(indices < 0):
        raise IndexError("a negative index into a dynamic axis is undefined in TensorRT")
    counted = np.where(indices < 0, indices + length, indices)
    inside = (counted >= 0) & (counted < length)
    return np.where(inside, counted, 0), inside


def _gather_axis(data: Array, indices: Array, axis: int, known: int) -> Array:
    places, inside = _inside(indices, data.shape[axis], known)
    y = np.take(data, places, axis)
    if inside.all():
        return y
    return np.where(inside.reshape(inside.shape + (1,) * (data.ndim - 1 - axis)), y, np.zeros((), data.dtype))


def _gather_batched(data: Array, indices: Array, axis: int, known: Shape) -> Array:
    """The first axis of both is the batch, which may stretch."""
    batch = max(data.shape[0], indices.shape[0])
    rows = np.broadcast_to(data, (batch, *data.shape[1:]))
    chosen = np.broadcast_to(indices, (batch, *indices.shape[1:]))
    pairs = zip(rows, chosen, strict=True)
    return np.stack([_gather_axis(row, places, axis - 1, known[axis]) for row, places in pairs])


def _gather_element(data: Array, indices: Array, axis: int, known: Shape) -> Array:
    places, inside = _inside(indices, data.shape[axis], known[axis])
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = places
    return np.where(inside, data[tuple(grid)], np.zeros((), data.dtype))


def _gather_nd(data: Array, indices: Array, elementwise: int, known: Shape) -> Array:
    """The last axis of ``indices`` holds the coordinates, which begin behind the elementwise axes."""
    depth = indices.shape[-1]
    grid: list[Array] = list(np.indices(indices.shape[:-1], sparse=True))[:elementwise]
    all_inside = np.ones(indices.shape[:-1], np.bool_)
    for axis in range(elementwise, elementwise + depth):
        places, inside = _inside(indices[..., axis - elementwise], data.shape[axis], known[axis])
        grid.append(places)
        all_inside &= inside
    y = data[tuple(np.broadcast_arrays(*grid))]
    rest = (1,) * (y.ndim - all_inside.ndim)
    return np.where(all_inside.reshape(all_inside.shape + rest), y, np.zeros((), data.dtype))


@evaluates("SCATTER")
def scatter(layer: Layer) -> Evaluate:
    """A copy of the first input, with the updates (third) at the indices (second)."""
    mode, axis = layer.mode.name, layer.axis

    def evaluate(data: Array, indices: Array, updates: Array) -> Array:
        y = data.copy()
        if mode == "ND":
            y[tuple(np.moveaxis(indices, -1, 0))] = updates
        else:
            grid: list[Array] = list(np.indices(indices.shape, sparse=True))
            grid[axis] = indices
            y[tuple(grid)] = updates
        return y

    return evaluate


@evaluates("ONE_HOT")
def one_hot(layer: Layer) -> Evaluate:
    """``values`` are (off, on). The new axis is counted in the output."""
    axis = layer.axis

    def evaluate(indices: Array, values: Array, depth: Array) -> Array:
        chosen = indices[..., np.newaxis] == np.arange(int(depth))
        off, on = values
        return np.moveaxis(np.where(chosen, on, off), -1, axis)

    return evaluate


@evaluates("NON_ZERO")
def non_zero(layer: Layer) -> Evaluate:
    """One column of coordinates for each element that is not 0, in row-major order."""
    return lambda x: np.stack(np.nonzero(x))
