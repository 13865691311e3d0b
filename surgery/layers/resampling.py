"""Layers that resize images by interpolation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    expect_axes,
    field_if_set,
    layer_rule,
)
from prototrt.surgery.ir import Array, Dim, OpenSize, computable, fixed, range_of
from prototrt.surgery.layers.usual_sizes import Sizes, meant_size
from prototrt.surgery.ops import MatMul, Pad, Resize
from prototrt.surgery.ops.windows import larger_smallest, ranges_text

LONGEST = 1 << 20
"""Elements of an axis that is resampled, at most: a net of a few lines must not take gigabytes."""
LARGEST_MATRIX = 1 << 20
"""Elements of a matrix of means of two neighbours. Larger ones are not worth their room in a plan."""
Pair = tuple[int, int]


@layer_rule("Interp")
def interp(build: LayerBuilder, layer: Layer, x: Value, like: Value | None = None) -> list[Value]:
    """Bilinear resizing with aligned corners. From PSPNet, DeepLab and yjxiong.

    Becomes: Pad, MatMul, one per axis; for large images Transpose, Gather, Subtract, Multiply, Add; Resize over sizes
    that vary.
    ``pad_beg`` and ``pad_end``, 0 or less, first cut off rows and columns. The size is that of the second bottom,
    if there is one and ``use_blob_size`` is not false; else the first that fits: ``shrink_factor`` alone,
    ``zoom_factor`` alone, ``height`` and ``width``, both factors, the image first shrunk. Where sizes vary, a stated
    height and width may be the usual size of a blob.
    Bottoms: (N, C, H, W), optionally a blob whose height and width count. Tops: (N, C, h, w).
    Source: hszhao/PSPNet ``src/caffe/layers/interp_layer.cpp``, ``src/caffe/util/interp.cpp``; for ``use_blob_size``
    ermig1979/Synet ``src/Synet/Converters/Deprecated/Caffe.h``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    cuts = -int(param.pad_beg), -int(param.pad_end)
    if min(cuts) < 0:
        raise NetError(
            f"pad_beg is {param.pad_beg} and pad_end {param.pad_end}, expected 0 or less",
            because="they crop; the layer does not pad",
            fix="add a layer that pads before this one",
        )
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    rest = sizes[0] - sum(cuts), sizes[1] - sum(cuts)
    for size, left in zip(sizes, rest, strict=True):
        if range_of(left).min < 1:
            raise ShapeError(
                f"pad_beg {param.pad_beg} and pad_end {param.pad_end} leave nothing of {sizes[0]} x {sizes[1]} pixels",
                because=ranges_text(size),
                fix=larger_smallest(size, "cut off less"),
            )
    if any(cuts):
        x = build.add(Pad((0, 0, -cuts[0], -cuts[0]), (0, 0, -cuts[1], -cuts[1])), x, hint="cropped")
    like = _bottom_that_counts(layer, like)
    out = size_of_bottom(layer, like) if like is not None else _size_of_interp(build, layer, rest)
    return [with_aligned_corners(build, x, out)]


def _bottom_that_counts(layer: Layer, like: Value | None) -> Value | None:
    """The second bottom, unless the file says that it does not count. Raises ``NetError``."""
    uses = field_if_set(layer.param, "use_blob_size")
    if uses and like is None:
        raise NetError(
            "use_blob_size is true, but there is one bottom", fix="add the blob whose size is meant"
        )
    return like if uses is None or uses else None


def with_aligned_corners(build: Builder, x: Value, out: Sizes) -> Value:
    """``x`` (N, C, H, W) with another height and width, interpolated linearly."""
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    if any(isinstance(size, OpenSize) for size in (*sizes, *out)):
        refuse_length(max(range_of(size).max for size in out))
        return x if sizes == out else build.add(Resize(*out), x)
    height, width = fixed_sizes(out)
    return stretched(build, stretched(build, x, 3, width), 2, height)


@layer_rule("BilinearInterpolation")
def bilinear_interpolation(
    build: LayerBuilder, layer: Layer, x: Value, like: Value | None = None
) -> list[Value]:
    """Bilinear resizing with aligned corners, ``interpolation_factor`` times or to the size of a second bottom.

    Becomes: MatMul, one per axis; for large images Transpose, Gather, Subtract, Multiply, Add; Resize over sizes that
    vary.
    From forks for the binarization of documents.
    Bottoms: (N, C, H, W), optionally a blob whose height and width count. Tops: (N, C, h, w).
    Source: the forks' ``src/caffe/layers/bilinear_interpolation_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    if like is not None:
        return [with_aligned_corners(build, x, size_of_bottom(layer, like))]
    factor = field_if_set(layer.param, "interpolation_factor")
    if factor is None or factor < 1:
        raise NetError(
            "states no size" if factor is None else f"interpolation_factor is {factor}, expected at least 1",
            fix="set interpolation_factor in bilinear_interpolation_param, or add a second bottom",
        )
    height, width = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    return [with_aligned_corners(build, x, (height * factor, width * factor))]


def _size_of_interp(build: LayerBuilder, layer: Layer, size: Sizes) -> Sizes:
    """The size that the fields ask for, of an image of this size."""
    param = layer.param
    factors = {name: field_if_set(param, name) for name in ("shrink_factor", "zoom_factor")}
    below = [f"{name} is {factor}" for name, factor in factors.items() if factor is not None and factor < 1]
    if below:
        raise NetError(f"{below[0]}, expected at least 1", fix="use a factor of 1 or more")
    shrink, zoom = factors.values()
    has_size = param.HasField("height") and param.HasField("width")
    if has_size and (shrink is None) == (zoom is None):
        if min(param.height, param.width) < 1:
            raise NetError(
                f"height is {param.height} and width {param.width}, expected at least 1",
                fix="set both to 1 or more",
            )
        return meant_size(build, int(param.height), int(param.width))
    if shrink is None and zoom is None:
        raise NetError(
            "states no size",
            fix="set height and width, zoom_factor or shrink_factor in interp_param",
        )
    height, width = ((side - 1) // (shrink or 1) * (zoom or 1) + 1 for side in size)
    return height, width


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


def stretched(build: Builder, x: Value, axis: int, out: int) -> Value:
    """Axis 2 or 3 of x (N, C, H, W) with ``out`` elements: means of two neighbours, the ends stay the ends.

    As a product with a matrix, or where that is large, picked and added.
    """
    size = fixed(x.shape[axis], f"axis {axis}")
    if size == out:
        return x
    refuse_length(out)
    return mixed(build, x, axis, *_neighbours(size, out))


def mixed(build: Builder, x: Value, axis: int, first: Array, second: Array, share: Array) -> Value:
    """Means of two elements of axis 2 or 3 of x (N, C, H, W): ``share`` of the second, the rest of the first."""
    size, out = fixed(x.shape[axis], f"axis {axis}"), len(first)
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
    """``weighted`` by constants."""
    return weighted(build, x, axis, build.constant(weights, "columns" if axis == 3 else "rows"))


def weighted(build: Builder, x: Value, axis: int, weights: Value) -> Value:
    """Axis 2 or 3 of x (N, C, H, W), whose elements become sums with ``weights`` (out, size)."""
    if axis == 3:
        return build.product(x, weights, hint="wide")
    return build.add(MatMul(), build.aligned(weights, 4), x)


def _neighbours(size: int, out: int) -> tuple[Array, Array, Array]:
    """The elements of the input (size,) around each element of the result (out,), and how near it is to the second."""
    place = np.arange(out) * ((size - 1) / (out - 1) if out > 1 else 0.0)
    first = np.minimum(place.astype(np.int32), size - 1)
    return first, np.minimum(first + 1, size - 1), place - first
