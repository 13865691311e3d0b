"""What sums an axis up or sorts it: reduce, top-k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    Shape,
    axes_of_mask,
    evaluates,
    kind_among,
    refuse_other_kind,
)

_Reduction = Callable[[Array, Shape, bool], Array]


def _accumulator(x: Array) -> np.dtype[np.generic]:
    return np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype


def _lowest(x: Array) -> float:
    return -np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)


def _highest(x: Array) -> float:
    return np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).max)


def _average(x: Array, axes: Shape, keep: bool) -> Array:
    mean = np.mean(x, axes, np.float64, keepdims=keep)
    return np.asarray(mean if x.dtype.kind == "f" else np.trunc(mean).astype(x.dtype))


_REDUCTIONS: dict[str, _Reduction] = {
    "AVG": _average,
    "MAX": lambda x, axes, keep: np.max(x, axes, keepdims=keep, initial=_lowest(x)),
    "MIN": lambda x, axes, keep: np.min(x, axes, keepdims=keep, initial=_highest(x)),
    "PROD": lambda x, axes, keep: np.prod(x, axes, _accumulator(x), keepdims=keep),
    "SUM": lambda x, axes, keep: np.sum(x, axes, _accumulator(x), keepdims=keep),
}


@evaluates("REDUCE")
def reduce(layer: Layer) -> Evaluate:
    """Over nothing: 0, 1, and for the extremes the lowest or highest number of the type."""
    axes, keep = axes_of_mask(layer.axes), bool(layer.keep_dims)
    reduction = kind_among(_REDUCTIONS, layer.op, "a reduction")
    return lambda x: reduction(x, axes, keep)


@evaluates("TOPK")
def topk(layer: Layer) -> Evaluate:
    """The k largest, in order, and their indices. Among equal elements, the first comes first.

    TensorRT does not document the order of equals; this is ONNX's rule, which its parser maps onto the layer.
    """
    refuse_other_kind(layer.op, "MAX", "a choice")
    (axis,), static_k = axes_of_mask(layer.axes), int(layer.k)

    def evaluate(x: Array, dynamic_k: Array | None = None) -> tuple[Array, Array]:
        k = static_k if dynamic_k is None else int(dynamic_k)
        # Sorting the mirror image and mirroring the result back keeps the first of equals in front.
        mirrored = np.flip(np.argsort(np.flip(x, axis), axis, "stable"), axis)
        order = np.take(x.shape[axis] - 1 - mirrored, range(k), axis)
        return np.take_along_axis(x, order, axis), order

    return evaluate
