"""Spatial pyramids: pooling into a number of windows that the size of the input does not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, positive_sizes
from prototrt.surgery.images.pooling import spans
from prototrt.surgery.images.windows import SlidingWindow
from prototrt.surgery.ir import OpenSize, Size, computable, fixed, open_count, range_of, symbols_of
from prototrt.surgery.ir.range_words import larger_smallest
from prototrt.surgery.layers.windows.pooling import pool, refuse_padded_stochastic, stochastic_mean
from prototrt.surgery.ops import Concat
from prototrt.surgery.ops.windows import ranges_text


@layer_rule("SPP")
def spatial_pyramid_pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pooling into 1, 2 x 2, 4 x 4, ... windows, flattened and concatenated.

    Becomes: MaxPool, or Pad and AveragePool, one per level; over sizes that vary Gather, Reduce; Reshape, Concat.
    Bottoms: (N, C, H, W). Tops: (N, C + 4 C + 16 C ...); with ``pyramid_height`` 1, (N, C, 1, 1).
    Source: caffe ``src/caffe/layers/spp_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    (height,) = positive_sizes(layer.param, "pyramid_height", fix="set pyramid_height in spp_param")
    if height == 1:
        return [_level(build, layer.param, x, 0)]
    levels = [_level(build, layer.param, x, level) for level in range(height)]
    flat = [
        build.reshape(level, (x.shape[0], open_count(level.shape[1:], "an axis of the bottom")))
        for level in levels
    ]
    return [build.add(Concat(1), *flat)]


def _level(build: LayerBuilder, param: Any, x: Value, level: int) -> Value:
    """One level of the pyramid: its windows tile the padded image."""
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    bins = 2**level
    window = (sizes[0] + bins - 1) // bins, (sizes[1] + bins - 1) // bins
    pad = (window[0] * bins - sizes[0] + 1) // 2, (window[1] * bins - sizes[1] + 1) // 2
    for size, whole, part in zip(sizes, window, pad, strict=True):
        if range_of(whole - part).min < 1:
            ranges, lower = ranges_text(size), f"use a pyramid_height of at most {level}"
            raise NetError(
                f"pyramid_height is {param.pyramid_height}, but level {level} cuts {sizes[0]} x {sizes[1]}"
                f" elements into {bins} x {bins} windows",
                because=f"at some sizes the pad around them is as large as a window, where {ranges}"
                if ranges
                else f"this needs a pad of {pad} around windows of {window}, and a pad must be smaller than its window",
                fix=Worded("{}, or {}", lower, larger_smallest(symbols_of(size))) if ranges else lower,
            )
    if any(isinstance(size, OpenSize) for size in sizes):
        return _pool_open(param, x, _Tiles(bins, window, pad))
    windows, pads = ((fixed(pair[0], "a size"), fixed(pair[1], "a size")) for pair in (window, pad))
    refuse_padded_stochastic(param, pads)
    return pool(build, param, x, spans(x.shape, SlidingWindow(windows, windows, pads, pads, (1, 1))))


@dataclass(frozen=True, slots=True)
class _Tiles:
    """``bins`` x ``bins`` windows that tile the padded image (N, C, H, W), whose sizes vary. No window is empty."""

    bins: int
    windows: tuple[Size, Size]
    pads: tuple[Size, Size]

    def largest(self, x: Value) -> Value:
        """The largest element of each window."""
        return self._reduce(x, Value.largest, pads_count=False)

    def sums(self, x: Value) -> Value:
        """The sum of each window."""
        return self._reduce(x, Value.sum, pads_count=True)

    def _reduce(self, y: Value, reduced: Callable[[Value, int], Value], *, pads_count: bool) -> Value:
        """Axis by axis. The pad is zeros if it counts; repeated edges do not change which element is the largest."""
        for axis, window, pad in zip((2, 3), self.windows, self.pads, strict=True):
            size, build = computable(y.shape[axis]), y.build
            places = build.counted_numbers(self.bins * window, "places", first=-pad)
            inside = places.at_least(0).at_most(size - 1)
            y = build.gathered(y, inside, axis)
            if pads_count:
                is_inside = places.equals(inside)
                y = is_inside.reshape(*(1,) * axis, self.bins * window, *(1,) * (3 - axis)).chosen(y, 0)
            before, behind = y.shape[:axis], y.shape[axis + 1 :]
            parts = y.reshape(*before, self.bins, window, *behind)
            y = reduced(parts, axis + 1).reshape(*before, self.bins, *behind)
        return y


def _pool_open(param: Any, x: Value, tiles: _Tiles) -> Value:
    if param.pool == param.MAX:
        return tiles.largest(x)
    if param.pool == param.AVE:
        return tiles.sums(x) / (tiles.windows[0] * tiles.windows[1])
    if max(range_of(pad).max for pad in tiles.pads) > 0:
        raise NetError(
            f"pool is STOCHASTIC, and {x.shape[2]} x {x.shape[3]} elements need a pad at some sizes"
            f" for {tiles.bins} x {tiles.bins} windows",
            because="Caffe pads for MAX and AVE only",
            fix=Worded(
                "use MAX or AVE, or name sizes that {} divides, such as {}*H, in {}",
                tiles.bins,
                tiles.bins,
                Option("shapes"),
            ),
        )
    return stochastic_mean(tiles.sums(x), tiles.sums(x * x))
