"""Convolution whose kernel reads where offsets say, between the elements."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Geometry,
    Layer,
    LayerBuilder,
    NetError,
    Value,
    computable,
    exact,
    expect_axes,
    fixed,
    layer_rule,
    linear_taps,
    misfit,
    ops,
    pixel_rows,
    sampled,
)


@layer_rule("DeformableConvolution")
def deformable_convolution(build: LayerBuilder, layer: Layer, x: Value, offset: Value) -> list[Value]:
    """Convolution that reads each element where an offset moves it, and 0 outside. From deformable ConvNets.

    Becomes: Gather and arithmetic, Convolution.
    Channels are in ``deformable_group`` groups with offsets of their own, by default 4, as ``group``. Offsets 2 k and
    2 k + 1 move element k of the kernel down and to the right. From the last element to the edge it is repeated.
    Bottoms: (N, C, H, W), offsets (N, 2 K deformable_group, h, w). Tops: (N, num_output, h, w).
    Blobs: weights (num_output, C/group, kernel...), bias (num_output,).
    Source: unsky/Deformable-ConvNets-caffe ``caffe/src/caffe/layers/deformable_conv_layer.cpp``,
    ``caffe/src/caffe/util/deformable_im2col.cu``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    geometry = _geometry(layer, x)
    groups, elements = int(layer.param.deformable_group), int(np.prod(geometry.kernel))
    if groups < 1 or geometry.channels % groups:
        raise NetError(
            f"deformable_group is {groups}, expected a divisor of the {geometry.channels} channels",
            fix="set deformable_group in deformable_convolution_param",
        )
    extents = [step * (size - 1) + 1 for step, size in zip(geometry.dilation, geometry.kernel, strict=True)]
    sizes = [fixed(size, "a side of the map") for size in x.shape[2:]]
    out = [
        (size + 2 * pad - extent) // stride + 1
        for size, pad, extent, stride in zip(sizes, geometry.pad, extents, geometry.stride, strict=True)
    ]
    expected = (x.shape[0], 2 * elements * groups, *out)
    if min(out) < 1 or offset.shape != expected:
        because = "each element of the kernel has two offsets for each window and group"
        fix = "give the layer that makes it the same kernel and stride"
        raise misfit(layer, 1, offset, expected, fix, because)
    windows = _windows(build, layer, x, offset, geometry, groups)
    kernel, bias = geometry.weights(build, layer), geometry.bias(build, layer)
    flat = build.reshape(kernel, (geometry.outputs, geometry.channels // geometry.group * elements, 1, 1))
    op = ops.Convolution((1, 1), (0, 0), (1, 1), geometry.group)
    return [build.add(op, windows, flat, bias)]


def _geometry(layer: Layer, x: Value) -> Geometry:
    """Kernel, stride, pad and dilation, as of a Convolution."""
    if layer.param.axis != 1:
        raise NetError(f"axis is {layer.param.axis}, expected 1", fix="remove axis")
    geometry = Geometry(layer.type, layer.param, x.shape, True)
    geometry.refuse_group()
    return geometry


def _windows(
    build: LayerBuilder, layer: Layer, x: Value, offset: Value, geometry: Geometry, groups: int
) -> Value:
    """What each window sees, (N, C K, h, w): the elements of the kernel vary fastest."""
    items = computable(x.shape[0], "the batch")
    height, width = (fixed(size, "a side of the map") for size in x.shape[2:])
    rows, columns = (fixed(size, "a side of the result") for size in offset.shape[2:])
    elements, places = int(np.prod(geometry.kernel)), rows * columns
    moves = exact(offset).reshape(items * groups, elements, 2, places)
    taps, is_inside = [], []
    for axis, size in enumerate((height, width)):
        grid = _grid(geometry, axis, (rows, columns)).reshape(1, elements, places)
        where = moves.slice(2, axis).reshape(items * groups, elements, places)
        place = where + build.constant(grid, "grid")
        is_inside.append((place >= 0) & (place < size))
        taps.append(linear_taps(is_inside[-1].chosen(place, 0).at_most(size - 1), size))
    share = geometry.channels // groups
    table = pixel_rows(build.reshape(x, (items * groups, share, height, width)))
    starts = build.counted_numbers(items * groups, "groups", step=height * width)
    origin = starts.reshape(items * groups, 1, 1)
    seen = sampled(table, origin, taps[0], taps[1], width)
    inside = (is_inside[0] & is_inside[1]).reshape(items * groups, elements, places, 1)
    kept = inside.chosen(seen, 0).transpose(0, 3, 1, 2)
    return kept.reshape(items, geometry.channels * elements, rows, columns)


def _grid(geometry: Geometry, axis: int, out: tuple[int, int]) -> Array:
    """Where each element of the kernel (K,) is without offsets, along an axis, for each window (h, w)."""
    element = np.indices(geometry.kernel)[axis].reshape(-1, 1, 1) * geometry.dilation[axis]
    window = np.indices(out)[axis] * geometry.stride[axis] - geometry.pad[axis]
    return np.asarray(element + window, np.float32)
