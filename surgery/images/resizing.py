"""Maps with another height and width: interpolated, by weights, or by copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes
from prototrt.surgery.ir import Array, Dim, OpenSize, Size, computable, fixed, range_of
from prototrt.surgery.ops import MatMul, Resize, Tile

LONGEST = 1 << 20
"""Elements of an axis that is resampled, at most: a net of a few lines must not take gigabytes."""


LARGEST_MATRIX = 1 << 20
"""Elements of a matrix of means of two neighbours. Larger ones are not worth their room in a plan."""


Pair = tuple[int, int]
Sizes = tuple[Size, Size]


def with_aligned_corners(build: Builder, x: Value, out: Sizes) -> Value:
    """``x`` (N, C, H, W) with another height and width, interpolated linearly."""
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    if any(isinstance(size, OpenSize) for size in (*sizes, *out)):
        refuse_length(max(range_of(size).max for size in out))
        return x if sizes == out else build.add(Resize(*out), x)
    height, width = fixed_sizes(out)
    return stretch(build, stretch(build, x, 3, width), 2, height)


def size_of_bottom(layer: Layer, like: Value) -> Sizes:
    """The height and the width of the second bottom."""
    expect_axes(layer, 1, like, "(N, C, H, W)")
    return (
        computable(like.shape[2], "the height of the second bottom"),
        computable(like.shape[3], "the width of the second bottom"),
    )


def fixed_sizes(sizes: Sequence[Dim]) -> Pair:
    """A height and a width that do not vary. Raises ``ShapeError``."""
    return fixed(sizes[0], "the height"), fixed(sizes[1], "the width")


def stretch(build: Builder, x: Value, axis: int, out: int) -> Value:
    """Axis 2 or 3 of x (N, C, H, W) with ``out`` elements: means of two neighbours, the ends stay the ends.

    As a product with a matrix, or where that is large, picked and added.
    """
    size = fixed(x.shape[axis], f"axis {axis}")
    if size == out:
        return x
    refuse_length(out)
    return means_of_two(build, x, axis, np.arange(out) * ((size - 1) / (out - 1) if out > 1 else 0.0))


def means_of_two(build: Builder, x: Value, axis: int, places: Array) -> Value:
    """Axis 2 or 3 of x (N, C, H, W) read at these places (out,), cut to the axis: means of the elements around each."""
    size, out = fixed(x.shape[axis], f"axis {axis}"), len(places)
    places = places.clip(0, size - 1)
    first = places.astype(np.int32)
    second, share = np.minimum(first + 1, size - 1), places - first
    if out * size <= LARGEST_MATRIX:
        weights = np.zeros((out, size), np.float32)
        np.add.at(weights, (np.arange(out), first), 1 - share)
        np.add.at(weights, (np.arange(out), second), share)
        return resampled(build, x, axis, weights)
    before, after = (build.gathered(x, build.constant(index, "place"), axis) for index in (first, second))
    factor = build.aligned(build.constant(share.astype(np.float32), "share"), 4, axis)
    step = ((after - before) * factor).named("step")
    return (before + step).named("between")


def refuse_length(out: float) -> None:
    """Raise ``ShapeError`` for an axis that would take gigabytes, or whose length is no number."""
    if not abs(out) <= LONGEST:
        raise ShapeError(
            f"an axis becomes {out} elements long, expected at most {LONGEST}", fix="use a smaller size"
        )


def resampled(build: Builder, x: Value, axis: int, weights: Array) -> Value:
    """``weighted_axis`` by constants."""
    return weighted_axis(build, x, axis, build.constant(weights, "columns" if axis == 3 else "rows"))


def weighted_axis(build: Builder, x: Value, axis: int, weights: Value) -> Value:
    """Axis 2 or 3 of x (N, C, H, W), whose elements become sums with ``weights`` (out, size)."""
    if axis == 3:
        return build.product(x, weights, hint="wide")
    return build.add(MatMul(), build.aligned(weights, 4), x)


def repeated(build: Builder, x: Value, scales: Pair) -> Value:
    """Every element of x (N, C, H, W) as often as the scales of height and width say."""
    items, channels, height, width = x.shape
    rows, columns = computable(height, "the height"), computable(width, "the width")
    y = build.reshape(x, (items, channels, rows, 1, columns, 1))
    for axis, scale in zip((3, 5), scales, strict=True):
        y = build.add(Tile(axis, scale), y)
    return build.reshape(y, (items, channels, rows * scales[0], columns * scales[1]))


def meant_size(build: LayerBuilder, height: int, width: int) -> Sizes:
    """What a stated size means: that of the blobs (N, C, H, W) so far which vary and usually are as large.

    PSPNet stretches what it has pooled to 60 x 60, the size of the map that it pools, for one size of the image. The
    stated size itself where no blobs vary so, or several do in different ways.
    """
    candidates = {sizes for sizes in _varying_sizes(build) if _usual(sizes) == (height, width)}
    if len(candidates) != 1:
        return height, width
    (sizes,) = candidates
    build.warn(
        f"the net states the usual size of an image that varies: {height} x {width} is {sizes[0]} x {sizes[1]}"
    )
    return sizes


def _varying_sizes(build: LayerBuilder) -> set[Sizes]:
    """The heights and widths of all images so far that vary."""
    values = (*build.inputs, *(value for node in build.nodes for value in node.outputs))
    images = {value.shape for value in values if len(value.shape) == 4 and not value.is_surgical}
    return {
        (computable(height), computable(width))
        for _, _, height, width in images
        if isinstance(height, OpenSize) or isinstance(width, OpenSize)
    }


def _usual(sizes: Sizes) -> tuple[int, int]:
    return range_of(sizes[0]).opt, range_of(sizes[1]).opt


def blocks_of_channels(x: Value, side: int) -> Value:
    """Channels (C side side) of x (N, ..., H, W) as places in each side x side pixels, the channel first."""
    items, channels, height, width = x.shape
    rows, columns = computable(height, "the height"), computable(width, "the width")
    kept = fixed(channels, "axis 1 (channels)") // (side * side)
    parts = x.reshape(items, kept, side, side, rows, columns).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(items, kept, rows * side, columns * side)
