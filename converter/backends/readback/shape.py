"""What changes a shape, the order of axes or the places of elements, and what reads a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    Shape,
    evaluates,
    integers,
)

_INSIDE: dict[str, Callable[[Array, int], Array]] = {
    "CLAMP": lambda places, length: np.clip(places, 0, length - 1),
    "FILL": lambda places, length: np.clip(places, 0, length - 1),  # then painted over
    "REFLECT": lambda places, length: _reflect(places, length),
    "WRAP": lambda places, length: places % length,
}
"""Where a place outside an axis is read, by sample mode."""


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
    def evaluate(x: Array, axes: Array | None = None) -> Array:
        return np.squeeze(x, None if axes is None else integers(axes))

    return evaluate


@evaluates("UNSQUEEZE")
def unsqueeze(layer: Layer) -> Evaluate:
    return lambda x, axes: np.expand_dims(x, integers(axes))


@evaluates("SLICE")
def slice_(layer: Layer) -> Evaluate:
    """Along each axis ``size`` elements, from ``start`` in steps of ``stride``.

    The mode decides the values outside. Each of the three may be an input instead. ``axes`` names those
    that are cut; the others stay whole.
    """
    static = [_static(layer, name) for name in ("start", "shape", "stride", "axes")]
    mode = layer.mode.name

    def evaluate(
        x: Array,
        start: Array | None = None,
        size: Array | None = None,
        stride: Array | None = None,
        fill: Array | None = None,
        axes: Array | None = None,
    ) -> Array:
        dynamic = (start, size, stride, axes)
        starts, sizes, strides, cut = (
            stored if tensor is None else integers(tensor)
            for stored, tensor in zip(static, dynamic, strict=True)
        )
        assert starts is not None
        assert sizes is not None
        assert strides is not None
        steps = zip(cut or range(x.ndim), starts, sizes, strides, strict=True)
        y = x
        for axis, begin, count, step in steps:
            y = _cut(y, axis % x.ndim, begin, count, step, mode, fill)
        return y

    return evaluate


def _reflect(places: Array, length: int) -> Array:
    # The mirrors are at the centers of the outermost elements, so these are not repeated.
    period = max(1, 2 * (length - 1))
    return np.asarray(np.minimum(places % period, period - places % period))


def _static(layer: Layer, name: str) -> Shape | None:
    value = getattr(layer, name, None)  # "axes" is missing before TensorRT 10.9
    return None if value is None else tuple(value)


def _cut(x: Array, axis: int, start: int, size: int, stride: int, mode: str, fill: Array | None) -> Array:
    length = x.shape[axis]
    places = start + stride * np.arange(size)
    inside = (places >= 0) & (places < length)
    if inside.all():
        return x[(slice(None),) * axis + (_as_slice(start, size, stride, places),)]
    if mode == "STRICT_BOUNDS":
        raise IndexError(
            f"start {start}, size {size} and stride {stride} leave axis {axis}, which has {length} elements"
        )
    if length == 0 and mode == "FILL":
        x, length = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype), 1
    y = np.take(x, _INSIDE[mode](places, length), axis)
    if mode == "FILL":
        value = np.zeros((), x.dtype) if fill is None else fill.reshape(()).astype(x.dtype)
        y = np.where(inside.reshape(-1, *(1,) * (x.ndim - 1 - axis)), y, value)
    return y


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
