"""Images read where a flow points. From FlowNet and PWC-Net."""

from __future__ import annotations

import math

from prototrt.surgery.rules import (
    DType,
    Layer,
    LayerBuilder,
    Value,
    computable,
    exact,
    expect_axes,
    layer_rule,
    linear_taps,
    misfit,
    sampled_images,
)


@layer_rule("FlowWarp")
def flow_warp(build: LayerBuilder, layer: Layer, image: Value, flow: Value) -> list[Value]:
    """The image read where a flow points, between its elements; outside it is 0 or NaN. From FlowNet.

    Becomes: Gather and arithmetic.
    Element (y, x) of the top is that at (y + flow[1], x + flow[0]) of the image. Between the last element and the edge,
    less than 1 further, the last element is repeated. ``fill_value`` says what stands for places outside.
    Bottoms: image (N, C, H, W), flow (N, 2, H, W). Tops: (N, C, H, W).
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/flow_warp_layer.cpp``.
    """
    fill = 0.0 if layer.param.fill_value == layer.param.ZERO else math.nan
    return [_warp(build, layer, image, flow, fill, reaches_edge=True)]


@layer_rule("Warp")
def warp(build: LayerBuilder, layer: Layer, image: Value, flow: Value) -> list[Value]:
    """The image read where a flow points, between its elements; beyond the last element it is 0. From PWC-Net.

    Becomes: Gather and arithmetic.
    As FlowWarp, but for places between the last element and the edge, which are outside.
    Bottoms: image (N, C, H, W), flow (N, 2, H, W). Tops: (N, C, H, W).
    Source: NVlabs/PWC-Net ``Caffe/warping_code/warp_layer.cu``.
    """
    return [_warp(build, layer, image, flow, 0.0, reaches_edge=False)]


def _warp(
    build: LayerBuilder, layer: Layer, image: Value, flow: Value, fill: float, *, reaches_edge: bool
) -> Value:
    """Element (y, x) of the result is that at (y + flow[1], x + flow[0]) of the image, ``fill`` outside."""
    expect_axes(layer, 0, image, "(N, C, H, W)")
    items, _, height, width = image.shape
    if flow.shape != (items, 2, height, width):
        because = f'it has a place for each element of "{layer.bottom_blob(0)}"'
        raise misfit(layer, 1, flow, (items, 2, height, width), "give it two channels: x and y", because)
    count, rows, columns = computable(items), computable(height, "the height"), computable(width, "the width")
    across, down = (part.reshape(count, rows, columns) for part in exact(flow).split(1))
    xs = across + build.counted_numbers(columns, "columns", dtype=DType.FLOAT32).reshape(1, 1, columns)
    ys = down + build.counted_numbers(rows, "rows", dtype=DType.FLOAT32).reshape(1, rows, 1)
    is_inside = (xs >= 0) & (ys >= 0)
    for places, size in ((xs, columns), (ys, rows)):
        is_inside &= places < size if reaches_edge else (places < size - 1) | places.equals(size - 1)
    xs, ys = (is_inside.chosen(places, 0) for places in (xs, ys))
    read = sampled_images(image, linear_taps(ys, rows), linear_taps(xs, columns))
    return is_inside.reshape(count, rows, columns, 1).chosen(read, fill).transpose(0, 3, 1, 2)
