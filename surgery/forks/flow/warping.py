"""Images read where a flow points. From FlowNet and PWC-Net."""

from __future__ import annotations

import math

import numpy as np

from prototrt.surgery.rules import (
    DType,
    Layer,
    LayerBuilder,
    Value,
    computable,
    exact,
    expect_axes,
    fixed,
    layer_rule,
    linear_taps,
    misfit,
    sampled_images,
    taps_inside,
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
    As FlowWarp, but for places between the last element and the edge, which are outside. In LiteFlowNet, the second
    bottom is the sum of a flow and a Grid, so it holds places; outside, the neighbours of a place count 0 one by one.
    Bottoms: image (N, C, H, W), flow (N, 2, H, W). Tops: (N, C, H, W).
    Source: NVlabs/PWC-Net ``Caffe/warping_code/warp_layer.cu``; twhui/LiteFlowNet ``src/caffe/layers/warp_layer.cu``.
    """
    if not _holds_places(build, flow):
        return [_warp(build, layer, image, flow, 0.0, reaches_edge=False)]
    _expect_flow(layer, image, flow)
    items, _, rows, columns = (computable(size, f"axis {axis}") for axis, size in enumerate(image.shape))
    xs, ys = (part.reshape(items, rows, columns) for part in exact(flow).split(1))
    return [sampled_images(image, taps_inside(ys, rows), taps_inside(xs, columns)).transpose(0, 3, 1, 2)]


@layer_rule("Grid")
def grid(build: LayerBuilder, layer: Layer, like: Value) -> list[Value]:
    """Where each element stands: its column, then its row. From LiteFlowNet.

    Becomes: a constant.
    Bottoms: (N, C, H, W), of which only the size counts. Tops: (N, 2, H, W).
    Source: twhui/LiteFlowNet ``src/caffe/layers/grid_layer.cpp``.
    """
    expect_axes(layer, 0, like, "(N, C, H, W)")
    items, rows, columns = (
        computable(like.shape[0]),
        fixed(like.shape[2], "the height"),
        fixed(like.shape[3], "the width"),
    )
    places = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)))[np.newaxis].astype(np.float32)
    return [build.broadcast(build.constant(places, "grid"), (items, 2, rows, columns))]


def _holds_places(build: LayerBuilder, flow: Value) -> bool:
    """Whether a Grid was added to this flow."""
    maker = build.writer(flow)
    addends = () if maker is None else map(build.writer, maker.inputs)
    return any(each is not None and each.origin.type == "Grid" for each in addends)


def _warp(
    build: LayerBuilder, layer: Layer, image: Value, flow: Value, fill: float, *, reaches_edge: bool
) -> Value:
    """Element (y, x) of the result is that at (y + flow[1], x + flow[0]) of the image, ``fill`` outside."""
    _expect_flow(layer, image, flow)
    items, _, height, width = image.shape
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


def _expect_flow(layer: Layer, image: Value, flow: Value) -> None:
    """Raises ``ShapeError`` unless the flow has two channels, and a place for each element of the image."""
    expect_axes(layer, 0, image, "(N, C, H, W)")
    items, _, height, width = image.shape
    if flow.shape != (items, 2, height, width):
        because = f'it has a place for each element of "{layer.bottom_blob(0)}"'
        raise misfit(layer, 1, flow, (items, 2, height, width), "give it two channels: x and y", because)
