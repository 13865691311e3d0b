"""Resizing images as FlowNet does: by places and weights along each axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from prototrt.surgery.rules import (
    CUT_BEFORE_LAYER,
    Array,
    DType,
    Layer,
    LayerBuilder,
    NetError,
    OpenSize,
    ShapeError,
    Size,
    Value,
    computable,
    expect_axes,
    fixed_sizes,
    layer_rule,
    meant_size,
    range_of,
    refuse_length,
    resampled,
    size_of_bottom,
    weighted_axis,
)

LARGEST_KERNEL_MATRIX = 1 << 24
"""Elements of a matrix that resamples an axis, at most."""


@layer_rule("Resample")
def resample(build: LayerBuilder, layer: Layer, x: Value, like: Value | None = None) -> list[Value]:
    """Resizing by NEAREST, LINEAR or CUBIC weights, which ``antialias`` widens for smaller sizes. From FlowNet.

    Becomes: MatMul, one per axis; for NEAREST Transpose, Gather; over sizes that vary also arithmetic on places.
    The size is that of the second bottom, if there is one, else ``height`` and ``width``. Element x of a row stands at
    ``x * fx + fy / 2 - 0.5`` of the bottom, one of a column at ``y * fy + fx / 2 - 0.5``, with fx and fy the bottom's
    width and height over the top's: each axis has the half of the other one, as in the source. Where sizes vary, the
    last element stands for a NEAREST one outside the bottom.
    Bottoms: (N, C, H, W), optionally a blob whose height and width count. Tops: (N, C, h, w).
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/resample_layer.cu``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    if param.type == param.AREA:
        raise NetError("type is AREA, expected NEAREST, LINEAR or CUBIC", fix=CUT_BEFORE_LAYER)
    if like is None and min(param.height, param.width) < 1:
        raise NetError(
            f"height is {param.height} and width {param.width}, expected at least 1",
            fix="set both in resample_param, or add a bottom of that size",
        )
    out = (
        meant_size(build, int(param.height), int(param.width))
        if like is None
        else size_of_bottom(layer, like)
    )
    refuse_length(max(range_of(size).max for size in out))
    if any(isinstance(size, OpenSize) for size in (*x.shape[2:], *out)):
        return [_resample_open(build, param, x, out)]
    return [_resample_fixed(build, param, x, fixed_sizes(out))]


def _resample_fixed(build: LayerBuilder, param: Any, x: Value, out: tuple[int, int]) -> Value:
    """By places and weights that are constants."""
    sizes = fixed_sizes(x.shape[2:])
    fy, fx = (np.float32(size) / np.float32(target) for size, target in zip(sizes, out, strict=True))
    half = np.float32(0.5)
    places = {
        2: np.arange(out[0], dtype=np.float32) * fy + fx * half - half,
        3: np.arange(out[1], dtype=np.float32) * fx + fy * half - half,
    }
    for axis, factor in ((3, fx), (2, fy)):
        size, stretch = sizes[axis - 2], factor if param.antialias and max(fx, fy) > 1 else np.float32(1)
        if param.type == param.NEAREST:
            x = build.gathered(x, build.constant(_nearest(places[axis], size), "nearest"), axis)
        else:
            kernel, reach = (_cubic, 4) if param.type == param.CUBIC else (_triangle, 2)
            radius = 2 if factor < 1 else math.ceil(reach * stretch)
            x = resampled(build, x, axis, _weights(kernel, places[axis], size, stretch, radius))
    return x


@layer_rule("Downsample")
def downsample(build: LayerBuilder, layer: Layer, x: Value, like: Value | None = None) -> list[Value]:
    """A smaller image, whose elements are weighted means of the nearest ones. From FlowNet.

    Becomes: MatMul, one per axis.
    The corners of both images meet. An element counts less the further it is from the place, and not at all where it
    is as far as two elements of the top are from each other. NaN, which the source leaves out of the means, is not.
    Bottoms: (N, C, H, W), optionally a blob whose height and width count, instead of ``top_height`` and ``top_width``.
    Tops: (N, C, h, w).
    Source: lmb-freiburg/flownet2 and twhui/LiteFlowNet ``src/caffe/layers/downsample_layer.cu``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    out = (param.top_height, param.top_width) if like is None else size_of_bottom(layer, like)
    sizes = fixed_sizes(x.shape[2:])
    for axis, target in zip((2, 3), fixed_sizes(out), strict=True):
        size = sizes[axis - 2]
        if target == size:
            continue
        if not 2 <= target < size:
            raise NetError(
                f"the top has a size of {target} along axis {axis}, expected 2 to {size}",
                because=f"the bottom has {size} elements there, and the corners of both meet",
                fix="use Resample, or give it a smaller size",
            )
        stretch = np.float32(size - 1) / np.float32(target - 1)
        places = np.arange(target, dtype=np.float32) / np.float32(target - 1) * np.float32(size - 1)
        weights = _weights(_triangle, places, size, stretch, math.ceil(stretch))
        x = resampled(build, x, axis, weights)
    return [x]


def _weights(
    kernel: Callable[[Array], Array], places: Array, size: int, stretch: np.float32, radius: int
) -> Array:
    """What each place (out,) takes of each element (size,): (out, size), their sum 1, or 0 where all are 0.

    Elements further from the rounded place than the radius do not count.
    """
    _refuse_many_weights(len(places), size)
    elements = np.arange(size, dtype=np.float32)
    is_near = np.abs(_round(places)[:, np.newaxis] - elements) <= radius
    weights = np.where(is_near, kernel((places[:, np.newaxis] - elements) / stretch), np.float32(0))
    total = weights.sum(1, keepdims=True)
    return np.asarray(weights / np.where(total == 0, 1, total), np.float32)


def _nearest(places: Array, size: int) -> Array:
    index = _round(places).astype(np.int32)
    if index.min() < 0 or index.max() >= size:
        raise NetError(
            f"some of the nearest elements would be outside an axis of {size} elements",
            because="FlowNet's layer exchanges the scales of height and width, which differ here",
            fix="scale height and width by one factor, or use the type LINEAR",
        )
    return index


def _round(places: Array) -> Array:
    """To whole numbers, halves away from zero, as C's ``round``."""
    return np.asarray(np.trunc(places + np.copysign(0.5, places)))


def _triangle(x: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(x), 0))


def _cubic(x: Array) -> Array:
    x = np.abs(x)
    near = x * x * (1.5 * x - 2.5) + 1
    far = x * (x * (2.5 - 0.5 * x) - 4) + 2
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _resample_open(build: LayerBuilder, param: Any, x: Value, out: tuple[Size, Size]) -> Value:
    """By places and weights that are computed in each call, since sizes vary."""
    sizes = dict(zip((2, 3), map(computable, x.shape[2:]), strict=True))
    targets = dict(zip((2, 3), out, strict=True))
    factors = {axis: build.scalar(size, 2) / targets[axis] for axis, size in sizes.items()}
    for axis, other in ((3, 2), (2, 3)):
        places = (
            _pixel_numbers(build, targets[axis]).reshape(targets[axis], 1) * factors[axis]
            + factors[other] * 0.5
            - 0.5
        )
        if param.type == param.NEAREST:
            nearest = (places.at_least(0) + 0.5).cast(DType.INT32).at_most(sizes[axis] - 1)
            x = build.gathered(x, nearest.reshape(targets[axis]), axis)
            continue
        _refuse_many_weights(range_of(targets[axis]).max, range_of(sizes[axis]).max)
        distance = places - _pixel_numbers(build, sizes[axis]).reshape(1, sizes[axis])
        if param.antialias:
            distance = distance / (factors[2].at_least(factors[3]) > 1).chosen(factors[axis], 1)
        distance = distance.at_least(0 - distance)
        # What is too far from a place has no weight in these kernels: no radius has to say so.
        weights = _cubic_of(distance) if param.type == param.CUBIC else (1 - distance).at_least(0)
        total = weights.sum(1)
        x = weighted_axis(build, x, axis, weights / total.equals(0).chosen(1, total))
    return x


def _pixel_numbers(build: LayerBuilder, size: Size) -> Value:
    return build.counted_numbers(size, "places", dtype=DType.FLOAT32)


def _cubic_of(x: Value) -> Value:
    near = x * x * (x * 1.5 - 2.5) + 1
    far = x * (x * (2.5 - x * 0.5) - 4) + 2
    return (x > 1).chosen((x >= 2).chosen(0, far), near)


def _refuse_many_weights(out: int, size: int) -> None:
    if out * size > LARGEST_KERNEL_MATRIX:
        raise ShapeError(
            f"an axis of {size} elements becomes {out} long, which takes {out * size} weights,"
            f" expected at most {LARGEST_KERNEL_MATRIX}",
            fix="use a smaller size",
        )
