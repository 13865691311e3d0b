"""What all maps of a net hold at each place of an image."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.rules import (
    Layer,
    LayerBuilder,
    NetError,
    Option,
    Value,
    Worded,
    computable,
    expect_axes,
    fixed,
    layer_rule,
    means_of_two,
    misfit,
    ops,
    refuse_length,
)


@layer_rule("HyperColumns")
def hypercolumns(build: LayerBuilder, layer: Layer, x: Value, *maps: Value) -> list[Value]:
    """The channels of all maps at each pixel of the first bottom, interpolated linearly. From surface normals.

    Becomes: MatMul, Concat, Transpose, Reshape.
    A map is smaller by a whole number, that of its height. Of the pixels, each ``skip_ratio``-th is taken, or of a
    smaller number that divides H W. With ``is_train`` the fork reads pixels drawn at random.
    Bottoms: (N, K, H, W), and maps (N, C, h, w). Tops: (N H W, sum of C, 1, 1), and the first bottom as (N H W, K).
    Source: JiangQH/caffe ``src/caffe/layers/hypercolumns_layer.cpp``.
    """
    if layer.param.is_train:
        setting = {f"{layer.name}.hypercolumns_param.is_train": "false"}
        raise NetError(
            "is_train is true: it reads pixels drawn at random",
            fix=Worded("read all of them: {}", Option("overrides", setting)),
        )
    if not maps:
        raise NetError(
            "has one bottom, expected an image and maps", fix="add the maps whose channels are joined"
        )
    for index, value in enumerate((x, *maps)):
        expect_axes(layer, index, value, "(N, C, H, W)")
    size = fixed(x.shape[2], "the height"), fixed(x.shape[3], "the width")
    refuse_length(max(size))
    columns = [_enlarge(build, layer, index, value, size) for index, value in enumerate(maps, 1)]
    joined = build.add(ops.Concat(1), *columns) if len(columns) > 1 else columns[0]
    pixels, ratio = size[0] * size[1], max(int(layer.param.skip_ratio), 1)
    step = next(step for step in range(min(ratio, pixels), 0, -1) if pixels % step == 0)
    rows, own = (_pixels_as_rows(value, pixels, step) for value in (joined, x))
    return [rows.reshape(*rows.shape, 1, 1), own]


def _enlarge(build: LayerBuilder, layer: Layer, index: int, x: Value, size: tuple[int, int]) -> Value:
    """The map as large as the image: pixel i is at ``(i - (scale - 1) / 2) / scale``, inside of the map."""
    scale = size[0] // fixed(x.shape[2], "the height of a map")
    for axis in (3, 2):
        count = fixed(x.shape[axis], "a side of a map")
        if not scale or (size[axis - 2] - 1) // scale >= count:
            because = "a map is smaller than the image by a whole number"
            fix = "use an image that the poolings divide"
            raise misfit(layer, index, x, f"a part of {size}", fix, because)
        places = (np.arange(size[axis - 2], dtype=np.float64) - (scale - 1) / 2) / scale
        x = means_of_two(build, x, axis, places)
    return x


def _pixels_as_rows(x: Value, pixels: int, step: int) -> Value:
    """The channels of each ``step``-th pixel: (N pixels / step, C)."""
    items, channels = computable(x.shape[0], "the batch"), fixed(x.shape[1], "axis 1 (channels)")
    rows = x.transpose(0, 2, 3, 1).reshape(items * (pixels // step), step, channels)
    return rows.slice(1, 0).reshape(rows.shape[0], channels)
