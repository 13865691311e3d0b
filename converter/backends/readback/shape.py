"""What changes a shape, the order of axes or the places of elements, and what reads a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    Shape,
    evaluates,
    integers,
    kind_among,
)


@evaluates("SHAPE")
def shape(layer: Layer) -> Evaluate:
    return lambda x: np.array(x.shape, np.int64)


@evaluates("CONCATENATION")
def concatenation(layer: Layer) -> Evaluate:
    axis = layer.axis
    return lambda *parts: np.concatenate(parts, axis)


@evaluates("SHUFFLE")
def shuffle(layer: Layer) -> Evaluate:
    """A transpose, a reshape, a second transpose. The new shape may be the second input."""
    first, second = tuple(layer.first_transpose), tuple(layer.second_transpose)
    static = None if layer.reshape_dims is None else tuple(layer.reshape_dims)
    zero_copies = bool(layer.zero_is_placeholder)

    def evaluate(x: Array, dynamic: Array | None = None) -> Array:
        target = static if dynamic is None else integers(dynamic)
        y = x.transpose(first[: x.ndim])
        if target is not None:
            y = y.reshape(_resolve(target, y.shape, zero_copies))
        return y.transpose(second[: y.ndim])

    return evaluate


def _resolve(target: Shape, shape: Shape, zero_copies: bool) -> Shape:
    """-1 is left to numpy, for which it means the same."""
    return tuple(shape[i] if size == 0 and zero_copies else size for i, size in enumerate(target))


@evaluates("SQUEEZE")
def squeeze(layer: Layer) -> Evaluate:
    return lambda x, axes: np.squeeze(x, integers(axes))


@evaluates("UNSQUEEZE")
def unsqueeze(layer: Layer) -> Evaluate:
    return lambda x, axes: np.expand_dims(x, integers(axes))


@evaluates("SLICE")
def slice_(layer: Layer) -> Evaluate:
    """Along each axis ``size`` elements, from ``start`` in steps of ``stride``, each of which may be an input instead.

    There is nothing outside, or one number, or the elements begin again. ``axes`` names those that are cut.
    """
    mode = kind_among({name: name for name in ("STRICT_BOUNDS", "FILL", "WRAP")}, layer.mode, "a slice")
    # "axes" is missing before TensorRT 10.9.
    static = [getattr(layer, name, None) for name in ("start", "shape", "stride", "axes")]
    held = [() if each is None else tuple(each) for each in static]

    def evaluate(
        x: Array,
        start: Array | None = None,
        size: Array | None = None,
        stride: Array | None = None,
        fill: Array | None = None,
        axes: Array | None = None,
    ) -> Array:
        pairs = zip(held, (start, size, stride, axes), strict=True)
        *steps, cut = (own if each is None else integers(each) for own, each in pairs)
        number = np.zeros((), x.dtype) if fill is None else fill.reshape(()).astype(x.dtype)
        y = x
        for axis, *step in zip(cut or range(x.ndim), *steps, strict=True):
            y = _cut(y, axis % x.ndim, (step[0], step[1], step[2]), mode, number)
        return y

    return evaluate


def _cut(x: Array, axis: int, steps: tuple[int, int, int], mode: str, fill: Array) -> Array:
    (start, size, stride), length = steps, x.shape[axis]
    if (start, size, stride) == (0, length, 1):
        return x
    places = start + stride * np.arange(size)
    inside = (places >= 0) & (places < length)
    if inside.all():
        return x[(slice(None),) * axis + (_as_slice(start, size, stride, places),)]
    if mode == "WRAP":
        return np.asarray(np.take(x, places % length, axis))
    if mode == "STRICT_BOUNDS":
        raise IndexError(
            f"start {start}, size {size} and stride {stride} leave axis {axis}, which has {length} elements"
        )
    if length == 0:
        x, length = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype), 1
    y = np.take(x, np.clip(places, 0, length - 1), axis)
    return np.where(inside.reshape(-1, *(1,) * (x.ndim - 1 - axis)), y, fill)


def _as_slice(start: int, size: int, stride: int, places: Array) -> Any:
    """A slice makes a view where an index array would copy."""
    if stride == 0 or size == 0:
        return places
    stop = start + size * stride
    return slice(start, None if stop < 0 else stop, stride)


@evaluates("REVERSE_SEQUENCE")
def reverse_sequence(layer: Layer) -> Evaluate:
    """Sequence i of the batch has its first ``lengths[i]`` elements reversed, and keeps the others."""
    batch_axis, sequence_axis = layer.batch_axis, layer.sequence_axis

    def evaluate(x: Array, lengths: Array) -> Array:
        batch, sequence = batch_axis % x.ndim, sequence_axis % x.ndim
        steps, ends = np.arange(x.shape[sequence]), lengths[:, np.newaxis]
        places = np.where(steps < ends, ends - 1 - steps, steps)
        if batch > sequence:
            places = places.T
        around = [axis for axis in range(x.ndim) if axis not in (batch, sequence)]
        return np.take_along_axis(x, np.expand_dims(places, around), sequence)

    return evaluate
