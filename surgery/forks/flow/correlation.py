"""How alike two maps are, place by place, and how long the vectors of one are. From FlowNet."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.surgery.rules import (
    Builder,
    Layer,
    LayerBuilder,
    NetError,
    ShapeError,
    Size,
    Value,
    computable,
    concatenate,
    expect_axes,
    fixed,
    layer_rule,
    misfit,
    ops,
    positive_sizes,
    range_of,
    ranges_text,
    refuse_large,
)

MOST_REACH = 128
"""Displacements to one side: FlowNet has 10."""


@layer_rule("Correlation")
def correlation(build: LayerBuilder, layer: Layer, a: Value, b: Value) -> list[Value]:
    """How alike each window of one map is to windows around it in another. From FlowNet.

    Becomes: Pad, MatMul, Gather, AveragePool, Concat.
    Channel ``(r + i) * (2 r + 1) + r + j`` of the top compares with the window moved by (i, j) times ``stride_2``, from
    -r to r, r = ``max_displacement`` / ``stride_2``: the mean product over the channels and
    the ``kernel_size`` x ``kernel_size`` elements. Both maps are padded with ``pad`` zeros. ``do_abs`` changes nothing.
    Bottoms: two blobs (N, C, H, W). Tops: (N, (2 r + 1)^2, h, w), h = ceil((H + 2 pad - 2 border) / ``stride_1``),
    border = ``max_displacement`` + ``kernel_size`` / 2.
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/correlation_layer.cpp``, ``correlation_layer.cu``.
    """
    return [_correlation(layer, a, b, in_rows=False)]


@layer_rule("Correlation1D")
def correlation_in_rows(build: LayerBuilder, layer: Layer, a: Value, b: Value) -> list[Value]:
    """Correlation with windows that move along the rows alone. From DispNet.

    Becomes: Pad, MatMul, Gather, AveragePool.
    Channel ``r + j`` compares with the window moved by j times ``stride_2``, from -r to r; with
    ``single_direction: 1`` from 0. Only the ends of the rows are padded.
    Bottoms: two blobs (N, C, H, W). Tops: (N, 2 r + 1, h, w), h = ceil((H - 2 (``kernel_size`` / 2)) / ``stride_1``).
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/correlation_layer1d.cpp``, ``correlation_layer1d.cu``.
    """
    if layer.param.single_direction not in (0, 1):
        raise NetError(
            f"single_direction is {layer.param.single_direction}, expected 0 or 1",
            because="with -1, the source reads elements before the row, and there are no others",
            fix="use a model that was trained with single_direction: 1",
        )
    return [_correlation(layer, a, b, in_rows=True)]


def _correlation(layer: Layer, a: Value, b: Value, *, in_rows: bool) -> Value:
    expect_axes(layer, 0, a, "(N, C, H, W)")
    if b.shape != a.shape:
        because = f'that is the shape of the first bottom, "{layer.bottom_blob(0)}"'
        raise misfit(layer, 1, b, a.shape, "give both bottoms one shape", because)
    param, out = layer.param, _size_of_correlation(layer, a, in_rows)
    kernel, stride, farthest = int(param.kernel_size), int(param.stride_1), int(param.max_displacement)
    reach = farthest // int(param.stride_2)
    refuse_large("max_displacement / stride_2", reach, MOST_REACH)
    moves = [step * int(param.stride_2) for step in range(-reach, reach + 1)]
    beside = [move for move in moves if move >= 0] if in_rows and param.single_direction else moves
    above, pad = (0, 0) if in_rows else (farthest, int(param.pad))
    around = (0, 0, pad, int(param.pad))
    first, second = (x.apply(ops.Pad(around, around)) for x in (a, b))
    seen = tuple((size - 1) * stride + kernel for size in out)
    first = first.slice(2, above, seen[0]).slice(3, farthest, seen[1])
    planes = []
    for down in [0] if in_rows else moves:
        rows = second.slice(2, above + down, seen[0])
        planes.append(_products(first, rows, [farthest + move for move in beside]))
    means = ops.AveragePool((kernel, kernel), (stride, stride), (0, 0), (0, 0))
    return concatenate(planes, 1).apply(means)


def _size_of_correlation(layer: Layer, x: Value, in_rows: bool) -> tuple[Size, Size]:
    """The size of the top. Raises ``NetError`` and ``ShapeError`` as the layer's ``CHECK``s do."""
    param = layer.param
    _refuse_fields_of_correlation(param)
    radius = (param.kernel_size - 1) // 2
    border = param.max_displacement + radius
    sizes = computable(x.shape[2], "the height"), computable(x.shape[3], "the width")
    borders = (radius if in_rows else border - param.pad), border - param.pad
    height, width = (
        (size - 2 * ends + param.stride_1 - 1) // param.stride_1
        for size, ends in zip(sizes, borders, strict=True)
    )
    ranges = ranges_text(*sizes)
    if min(range_of(height).min, range_of(width).min) < 1:
        raise ShapeError(
            f"{sizes[0]} x {sizes[1]} elements with a pad of {param.pad} have no room for a border of {border}",
            because="border is max_displacement + kernel_size / 2" + (f", and {ranges}" if ranges else ""),
            fix=f"set pad to {border}, or feed a larger image",
        )
    return height, width


def _refuse_fields_of_correlation(param: Any) -> None:
    missing = [name for name in ("kernel_size", "max_displacement") if not param.HasField(name)]
    if missing:
        raise NetError(f"states no {missing[0]}", fix=f"set {missing[0]} in correlation_param")
    if param.kernel_size % 2 == 0:
        raise NetError(
            f"kernel_size is {param.kernel_size}, expected an odd number",
            because="a window has a middle element",
            fix=f"use {param.kernel_size + 1}",
        )
    positive_sizes(param, "stride_1", "stride_2", fix="set both to 1 or more")


def _products(a: Value, b: Value, starts: list[int]) -> Value:
    """Mean products over the channels: (N, starts, H, W) for a (N, C, H, W) and b (N, C, H, wide).

    Every element of a row with every one of the other row, in one product; then those that belong together.
    """
    items, channels, height, width = a.shape
    wide = computable(b.shape[3], "the width")
    left, right = a.transpose(0, 2, 3, 1), b.transpose(0, 2, 1, 3)
    table = left.apply(ops.MatMul(), right)
    size = computable(width, "the width")
    flat = table.reshape(items, height, size * wide)
    windows = a.build.gathered(flat, _pairs(a.build, size, wide, starts), 2)
    return windows.transpose(0, 2, 1, 3) / fixed(channels, "axis 1 (channels)")


def _pairs(build: Builder, size: Size, wide: Size, starts: list[int]) -> Value:
    """Where in the flattened table (size, wide) the element ``start`` further right stands: (starts, size)."""
    first = np.array(starts, np.int32)[:, np.newaxis]
    if isinstance(size, int) and isinstance(wide, int):
        return build.constant((np.arange(size) * (wide + 1) + first).astype(np.int32), "pairs")
    diagonal = build.counted_numbers(size, "diagonal", step=wide + 1).reshape(1, size)
    return diagonal + build.constant(first, "starts")


@layer_rule("ChannelNorm")
def channel_norm(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``sqrt(sum of squares over the channels)`` at each place. From FlowNet.

    Becomes: Multiply, Reduce, Sqrt.
    Bottoms: (N, C, H, W). Tops: (N, 1, H, W).
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/channel_norm_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    return [(x * x).named("squares").sum(1).sqrt()]
