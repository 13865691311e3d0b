"""Small layers of single forks: mirrored images, limits, numbers at each place of a map."""

from __future__ import annotations

from typing import Any

from prototrt.surgery.rules import (
    Layer,
    LayerBuilder,
    NetError,
    Size,
    Value,
    computable,
    expect_axes,
    layer_rule,
    misfit,
    ops,
    python_parameters,
    python_rule,
    shortened,
)

_LARGEST = (1 << 31) - 1
"""What a size can be in Caffe."""


@python_rule("caffe_traininglayers.SpatialRepLayer")
def spread_like(build: LayerBuilder, layer: Layer, x: Value, like: Value) -> list[Value]:
    """The numbers (N, C, 1, 1) at each place of a map as large as the second bottom. From colorization.

    Becomes: Tile.
    Bottoms: (N, C, 1, 1), and a map (N, D, H, W), of which only height and width are read. Tops: (N, C, H, W).
    Source: junyanz/interactive-deep-colorization ``caffe_files/caffe_traininglayers.py``.
    """
    if len(like.shape) != 4:
        raise misfit(layer, 1, like, "(N, C, H, W)", "give it a map with four axes")
    height, width = (computable(size, "the map") for size in like.shape[2:])
    return [_spread(build, layer, x, height, width)]


@python_rule("cmap_layer.CmapLayer")
def spread_to(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The numbers (N, C) at each place of a map of the stated ``height`` and ``width``. From human parsing.

    Becomes: Reshape, Tile.
    The program fills each map of a batch with the numbers of its first image, so N is 1.
    Bottoms: (1, C), or with further axes of size 1. Tops: (1, C, height, width).
    Source: weitianhan/human_parsing ``cmap_layer.py``.
    """
    if x.shape[:1] != (1,):
        raise misfit(layer, 0, x, "a batch of 1", "give the net one image per call")
    parameters = python_parameters(layer)
    height, width = (_size(parameters, name) for name in ("height", "width"))
    return [_spread(build, layer, x, height, width)]


def _spread(build: LayerBuilder, layer: Layer, x: Value, height: Size, width: Size) -> Value:
    if len(x.shape) < 2 or any(size != 1 for size in x.shape[2:]):
        raise misfit(layer, 0, x, "(N, C, 1, 1)", "give it one number per channel")
    cell = build.reshape(x, (*x.shape[:2], 1, 1))
    columns = build.add(ops.Tile(2, height), cell, hint="columns")
    return build.add(ops.Tile(3, width), columns)


def _size(parameters: dict[str, Any], name: str) -> int:
    size = parameters.get(name)
    if type(size) is not int or not 0 < size <= _LARGEST:
        raise NetError(
            f"param_str states no {name}"
            if size is None
            else f"param_str states {name} as {shortened(repr(size))}",
            because="it is the size of the top",
            fix="state both sizes, as in {'height': 60, 'width': 40}",
        )
    return size


@layer_rule("Flip")
def flip(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Mirrored images: the columns from the last to the first, with ``flip_height`` also the rows. From NormFace.

    Becomes: Reverse, one per axis.
    ``flip_width: false`` leaves the columns as they are.
    Bottoms: (N, C, H, W). Tops: one, of the same shape.
    Source: happynear/caffe-windows ``src/caffe/layers/flip_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    for axis, is_flipped in ((2, layer.param.flip_height), (3, layer.param.flip_width)):
        if is_flipped:
            x = build.add(ops.Reverse(axis), x)
    return [x]


@layer_rule("BReLU")
def brelu(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``min(max(x, minval), maxval)``: from 0 to 1 unless stated. From nets that remove haze.

    Becomes: Clip.
    Source: yanhuama/mycaffe ``src/caffe/layers/brelu_layer.cpp``.
    """
    low, high = layer.param.minval, layer.param.maxval
    return [build.add(ops.Clip(min(low, high), high), x)]
