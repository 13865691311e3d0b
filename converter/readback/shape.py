"""What changes a tensor's shape or the order of its axes, and what reads its shape."""

from __future__ import annotations

import numpy as np

from prototrt.converter.readback.registry import Array, Evaluate, Layer, Shape, evaluates, integers


@evaluates("SHAPE")
def shape(layer: Layer) -> Evaluate:
    return lambda x: np.array(x.shape, np.int64)


@evaluates("CONCATENATION")
def concatenation(layer: Layer) -> Evaluate:
    axis = layer.axis
    return lambda *parts: np.concatenate(parts, axis)


@evaluates("SHUFFLE")
def shuffle(layer: Layer) -> Evaluate:
    """A transpose, a reshape, a second transpose. The new shape may come as second input."""
    first, second = tuple(layer.first_transpose), tuple(layer.second_transpose)
    static = None if layer.reshape_dims is None else tuple(layer.reshape_dims)
    zero_copies = bool(layer.zero_is_placeholder)

    def evaluate(x: Array, dynamic: Array | None = None) -> Array:
        wanted = static if dynamic is None else integers(dynamic)
        y = x.transpose(first[: x.ndim])
        if wanted is not None:
            y = y.reshape(_resolved(wanted, y.shape, zero_copies))
        return y.transpose(second[: y.ndim])

    return evaluate


def _resolved(wanted: Shape, found: Shape, zero_copies: bool) -> Shape:
    """-1 is left to numpy, for which it means the same."""
    return tuple(found[i] if size == 0 and zero_copies else size for i, size in enumerate(wanted))


@evaluates("SQUEEZE")
def squeeze(layer: Layer) -> Evaluate:
    def evaluate(x: Array, axes: Array | None = None) -> Array:
        return np.squeeze(x, None if axes is None else integers(axes))

    return evaluate


@evaluates("UNSQUEEZE")
def unsqueeze(layer: Layer) -> Evaluate:
    return lambda x, axes: np.expand_dims(x, integers(axes))
