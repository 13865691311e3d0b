"""Spatial pyramids: pooling into a number of windows that the size of the input does not change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, UnsupportedLayerError
from prototrt.surgery.expansion.layer_builder import LayerBuilder, expect_axes, layer_rule
from prototrt.surgery.ir import (
    OpenSize,
    Size,
    Value,
    computable,
    element_count,
    fixed,
    range_of,
    symbols_of,
)
from prototrt.surgery.ir.expression import Expression
from prototrt.surgery.ir.range_words import one_size
from prototrt.surgery.layers.pooling import pooled
from prototrt.surgery.layers.pooling_geometry import refuse_padded_stochastic, spans
from prototrt.surgery.ops import (
    Concat,
)
from prototrt.surgery.ops.windows import told_ranges


@layer_rule("SPP")
def spatial_pyramid_pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pooling into 1, 2 x 2, 4 x 4, ... windows, flattened and concatenated.

    Becomes: MaxPool, or Pad and AveragePool, one per level; over sizes that vary Gather, Reduce; Reshape, Concat.
    Bottoms: (N, C, H, W). Tops: (N, C + 4 C + 16 C ...); with ``pyramid_height`` 1, (N, C, 1, 1).
    Source: caffe ``src/caffe/layers/spp_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)", 4)
    height = int(layer.param.pyramid_height)
    if height < 1:
        raise NetError(
            f"pyramid_height is {height}, expected at least 1", fix="set pyramid_height in spp_param"
        )
    if height == 1:
        return [_level(build, layer.param, x, 0)]
    levels = [_level(build, layer.param, x, level) for level in range(height)]
    flat = [
        build.reshape(level, (x.shape[0], element_count(level.shape[1:], "an axis of the bottom")))
        for level in levels
    ]
    return [build.add(Concat(1), *flat)]


def _level(build: LayerBuilder, param: Any, x: Value, level: int) -> Value:
    """One level of the pyramid: its windows tile the padded image."""
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    bins = 2**level
    window = (sizes[0] + bins - 1) // bins, (sizes[1] + bins - 1) // bins
    pad = (window[0] * bins - sizes[0] + 1) // 2, (window[1] * bins - sizes[1] + 1) // 2
    if min(range_of(whole - part).min for whole, part in zip(window, pad, strict=True)) < 1:
        ranges = told_ranges(*sizes)
        raise NetError(
            f"pyramid_height is {param.pyramid_height}, but level {level} cuts {sizes[0]} x {sizes[1]}"
            f" elements into {bins} x {bins} windows",
            because=f"at some sizes the pad around them is as large as a window, where {ranges}"
            if ranges
            else f"this needs a pad of {pad} around windows of {window}, and a pad must be smaller than its window",
            fix=f"use a pyramid_height of at most {level}" + (", or larger smallest sizes" if ranges else ""),
        )
    if any(isinstance(size, OpenSize) for size in sizes):
        return _tiled(build, param, x, bins, window, pad)
    windows, pads = ((fixed(pair[0], "a size"), fixed(pair[1], "a size")) for pair in (window, pad))
    refuse_padded_stochastic(param, pads)
    return pooled(build, param, x, *spans(x.shape, windows, windows, pads))


def _tiled(
    build: LayerBuilder, param: Any, x: Value, bins: int, windows: Sequence[Size], pads: Sequence[Size]
) -> Value:
    """``bins`` x ``bins`` windows that tile the padded image, whose sizes vary: axis by axis, as no window is empty."""
    if param.pool == param.STOCHASTIC:
        raise UnsupportedLayerError(
            f"pool is STOCHASTIC, and the size {x.shape[2]} x {x.shape[3]} varies",
            because="only windows of MAX and AVE can vary",
            fix=one_size({name: span for size in x.shape[2:] for name, span in symbols_of(size).items()}),
        )
    is_mean = param.pool == param.AVE
    y = Expression(build, x)
    for axis, window, pad in zip((2, 3), windows, pads, strict=True):
        size = computable(x.shape[axis])
        places = Expression(build, build.counted_numbers(bins * window, "places", first=-pad))
        inside = places.at_least(0).at_most(size - 1)
        y = Expression(build, build.gathered(y.value, inside.value, axis))
        if is_mean:  # the pad counts as zeros; repeated edges do not change which element is the largest
            y = places.equals(inside).reshape(*(1,) * axis, bins * window, *(1,) * (3 - axis)).chosen(y, 0)
        before, behind = y.shape[:axis], y.shape[axis + 1 :]
        parts = y.reshape(*before, bins, window, *behind)
        y = parts.sum(axis + 1) if is_mean else parts.largest(axis + 1)
        y = y.reshape(*before, bins, *behind)
    return (y / (windows[0] * windows[1]) if is_mean else y).value
