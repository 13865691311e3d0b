"""Resizing of a fork that takes TensorFlow's fields, with the channels last."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.surgery.rules import (
    CUT_BEFORE_LAYER,
    Array,
    Layer,
    LayerBuilder,
    NetError,
    OpenSize,
    Option,
    ShapeError,
    UnsupportedLayerError,
    Value,
    Worded,
    expect_axes,
    fixed,
    fixed_sizes,
    layer_rule,
    means_of_two,
    refuse_length,
    repeated,
)


@layer_rule("ResizeBilinear")
def resize_bilinear(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Bilinear resizing as in TensorFlow. From Synopsys' fork.

    Becomes: MatMul, one per axis; for large images Transpose, Gather, Subtract, Multiply, Add.
    The size is ``output_height`` and ``output_width``, or the bottom's times ``scale_height`` and ``scale_width``.
    Element i stands at ``i * size / new size``, with ``align_corners`` at ``i * (size - 1) / (new size - 1)``.
    Bottoms: (N, H, W, C), or (N, C, H, W) with ``data_format: "NCHW"``. Tops: the same with another size.
    Source: synopsys-caffe ``src/caffe/layers/resize_bilinear_layer.cpp``.
    """
    image, out = _image_of_tensorflow(layer, x)
    param = layer.param
    sizes = fixed_sizes(image.shape[2:])
    value = image
    for axis in (3, 2):
        places = _places(sizes[axis - 2], out[axis - 2], param.align_corners)
        value = means_of_two(build, value, axis, places)
    return [_as_tensorflow(layer, value)]


@layer_rule("ResizeNearestNeighbor")
def resize_nearest(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Resizing by the nearest element, as in TensorFlow. From Synopsys' fork.

    Becomes: Gather, one per axis; over sizes that vary Reshape, Tile.
    Fields, bottoms and tops: as of ResizeBilinear. Where sizes vary, the scales must be whole numbers.
    Source: synopsys-caffe ``src/caffe/layers/resize_nearest_neighbor_layer.cpp``.
    """
    param = layer.param
    image = _channels_first(layer, x)
    if any(isinstance(size, OpenSize) for size in image.shape[2:]):
        return [_as_tensorflow(layer, _repeat_by_scales(build, layer, image))]
    _, out = _image_of_tensorflow(layer, x)
    value = image
    for axis in (2, 3):
        size = fixed(image.shape[axis], f"axis {axis}")
        places = _places(size, out[axis - 2], param.align_corners)
        nearest = np.floor(places + np.float32(0.5)) if param.align_corners else np.floor(places)
        index = np.minimum(nearest, size - 1).astype(np.int32)
        value = build.gathered(value, build.constant(index, "place"), axis)
    return [_as_tensorflow(layer, value)]


def _repeat_by_scales(build: LayerBuilder, layer: Layer, image: Value) -> Value:
    param = layer.param
    scales = param.scale_height, param.scale_width
    if (
        param.HasField("output_height")
        or param.HasField("output_width")
        or param.align_corners
        or not all(scale.is_integer() and scale >= 1 for scale in scales)
    ):
        raise ShapeError(
            f"sizes vary: {image.shape}",
            because="over such sizes only whole scale_height and scale_width are supported, without other fields",
            fix=Worded("state one size of the input in {}", Option("shapes")),
        )
    return repeated(build, image, (int(scales[0]), int(scales[1])))


def _places(size: int, out: int, corners: bool) -> Array:
    """Where the elements of a new axis stand in the old one, in the fork's float32."""
    step = (
        np.float32(size - 1) / np.float32(out - 1)
        if corners and out > 1
        else np.float32(size) / np.float32(out)
    )
    return np.asarray(np.arange(out, dtype=np.float32) * step)


def _channels_first(layer: Layer, x: Value) -> Value:
    """The bottom as (N, C, H, W). Raises ``UnsupportedLayerError`` for volumes."""
    if layer.param.data_format not in ("NHWC", "NCHW"):
        raise UnsupportedLayerError(
            f"data_format is {layer.param.data_format}, expected NHWC or NCHW", fix=CUT_BEFORE_LAYER
        )
    expect_axes(layer, 0, x, "(N, H, W, C) or (N, C, H, W)", 4)
    return x.transpose(0, 3, 1, 2) if layer.param.data_format == "NHWC" else x


def _as_tensorflow(layer: Layer, y: Value) -> Value:
    return y.transpose(0, 2, 3, 1) if layer.param.data_format == "NHWC" else y


def _image_of_tensorflow(layer: Layer, x: Value) -> tuple[Value, tuple[int, int]]:
    """The bottom as (N, C, H, W), and the size that the fields ask for. Raises ``NetError``."""
    param = layer.param
    image = _channels_first(layer, x)
    height, width = (
        _new_length(param, side, size)
        for side, size in zip(("height", "width"), fixed_sizes(image.shape[2:]), strict=True)
    )
    if min(height, width) < 1:
        raise NetError(
            f"the top would be {height} x {width}, expected at least 1 x 1", fix="state a larger size"
        )
    refuse_length(max(height, width))
    return image, (height, width)


def _new_length(param: Any, side: str, size: int) -> int:
    """What the fields ask for, in the fork's float32."""
    if param.HasField(f"output_{side}"):
        return int(getattr(param, f"output_{side}"))
    scale = getattr(param, f"scale_{side}")
    refuse_length(size * scale)
    return int(np.floor(np.float32(size) * np.float32(scale)))
