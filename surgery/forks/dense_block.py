"""A whole block of a DenseNet as one layer, as caffe_ocr has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Layer,
    LayerBuilder,
    NetError,
    Purpose,
    Value,
    expect_axes,
    field_if_set,
    fixed,
    is_broadcast,
    layer_rule,
    map_elements,
    ops,
)

EPSILON = 1e-5
MOST_TRANSITIONS = 200


@layer_rule("DenseBlock")
def dense_block(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``numTransition`` times: normalize all channels so far, ReLU, convolve, and add the result to them.

    Becomes: Affine, LeakyReLU, Convolution, Concat.
    Bottom: (N, C, H, W). Top: (N, C + numTransition * growthRate, H, W).
    Blobs: of each transition the filter, then of each the scale, the bias, the mean, the variance,
    with use_BC the same five of the 1 x 1 convolutions to 4 * growthRate channels that come first; the factor.
    It convolves as mathematicians do, with the filters turned around. initChannel is not read.
    Source: caffe_ocr and mini-caffe ``src/caffe/layers/DenseBlock_layer.cpp``, ``BN_inf_Fwd``.
    """
    param = layer.param
    count, growth = int(param.numTransition), int(param.growthRate)
    _refuse_sizes(param, count, growth)
    expect_axes(layer, 0, x, "(N, C, H, W)")
    stored = _read(build, layer, count, growth, fixed(x.shape[1], "the number of channels"))
    for transition in stored:
        y = _normalize(build, x, transition.norm)
        if transition.squeeze is not None and transition.squeezed_norm is not None:
            y = _normalize(build, _convolve(build, y, transition.squeeze), transition.squeezed_norm)
        x = build.add(ops.Concat(1), x, _convolve(build, y, transition.filter))
    return [x]


def _refuse_sizes(param: Any, count: int, growth: int) -> None:
    """Raise ``NetError`` for more transitions than a graph holds, and for filters that change H and W."""
    if count > MOST_TRANSITIONS:
        raise NetError(
            f"numTransition is {count}, expected at most {MOST_TRANSITIONS}",
            because="each of them becomes nodes of the graph",
            fix="split the block into several layers",
        )
    if (
        count < 1
        or growth < 1
        or (param.filter_H, param.filter_W) != (2 * param.pad_h + 1, 2 * param.pad_w + 1)
    ):
        raise NetError(
            f"numTransition is {count}, growthRate {growth}, the filters are {param.filter_H} x {param.filter_W}"
            f" with pads {param.pad_h} and {param.pad_w}, expected sizes of at least 1 and pads that keep H and W",
            fix="state odd sizes for the filters, and pads of half the size, rounded down",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Norm:
    """Scale and shift a channel."""

    scale: Array
    shift: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Transition:
    filter: Array
    norm: _Norm
    squeeze: Array | None = None
    squeezed_norm: _Norm | None = None


def _read(build: LayerBuilder, layer: Layer, count: int, growth: int, channels: int) -> list[_Transition]:
    param = layer.param
    widths = [channels + growth * index for index in range(count)]
    kernel, squeezed = (int(param.filter_H), int(param.filter_W)), [4 * growth] * count
    inputs = squeezed if param.use_BC else widths
    filters = [_filter(build, layer, (growth, size, *kernel)) for size in inputs]
    raw = _norm_blobs(build, layer, widths)
    squeezes: list[Array] = []
    squeezed_raw: list[list[Array]] = []
    if param.use_BC:
        squeezes = [_filter(build, layer, (4 * growth, size, 1, 1)) for size in widths]
        squeezed_raw = _norm_blobs(build, layer, squeezed)
    factor = float(build.parameter(layer, (1,), "factor", kind="scale").array[0])
    norms = [_norm(blobs, factor) for blobs in raw]
    if not param.use_BC:
        return [_Transition(*parts) for parts in zip(filters, norms, strict=True)]
    inner = [_norm(blobs, factor) for blobs in squeezed_raw]
    return [_Transition(*parts) for parts in zip(filters, norms, squeezes, inner, strict=True)]


def _filter(build: LayerBuilder, layer: Layer, shape: tuple[int, ...]) -> Array:
    filler = field_if_set(layer.param, "Filter_Filler")
    stored = build.parameter(layer, shape, "filter", filler=filler).array
    return stored if is_broadcast(stored) else np.ascontiguousarray(stored[:, :, ::-1, ::-1])


def _norm_blobs(build: LayerBuilder, layer: Layer, widths: list[int]) -> list[list[Array]]:
    """Scale, bias, mean and variance of each transition; in the file all scales come first."""
    kinds: tuple[Purpose, ...] = ("scale", "bias", "mean", "variance")
    columns = [
        [build.parameter(layer, (1, width, 1, 1), kind, kind=kind).array.reshape(-1) for width in widths]
        for kind in kinds
    ]
    return [list(blobs) for blobs in zip(*columns, strict=True)]


def _norm(blobs: list[Array], factor: float) -> _Norm:
    per = 1 / factor if factor else 0.0

    def slope(scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        return np.asarray(scale / np.sqrt(variance * per + EPSILON))

    def shift(scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        return bias - mean * per * slope(scale, bias, mean, variance)

    wide = [map_elements(lambda blob: blob.astype(np.float64), blob) for blob in blobs]
    exact = map_elements(slope, *wide), map_elements(shift, *wide)
    return _Norm(*(map_elements(lambda array: array.astype(np.float32), array) for array in exact))


def _normalize(build: LayerBuilder, x: Value, norm: _Norm) -> Value:
    scale, shift = build.constant(norm.scale, "scale"), build.constant(norm.shift, "shift")
    return build.add(ops.LeakyReLU(), build.add(ops.Affine(), x, scale, shift, hint="normalized"))


def _convolve(build: LayerBuilder, x: Value, weights: Array) -> Value:
    pad = tuple(size // 2 for size in weights.shape[2:])
    bias = build.constant(np.broadcast_to(np.float32(0), (len(weights),)), "bias")
    return build.add(ops.Convolution((1, 1), pad, (1, 1)), x, build.constant(weights, "filter"), bias)
