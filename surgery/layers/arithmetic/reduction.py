"""Layers that reduce many elements to few."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.bottoms import exact, numbers_of
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    canonical_axis,
    expect_axes,
    layer_rule,
    misfit,
)
from prototrt.surgery.ir import DType, Shape, computable, open_count, range_of
from prototrt.surgery.ops import Cast, Concat, Reduce, ReduceKind, TopK
from prototrt.surgery.ops.windows import sizes_of


@layer_rule("Reduction")
def reduction(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``coeff`` times the sum, the sum of magnitudes or squares, or the mean, over all axes from ``axis`` on.

    Becomes: Abs or Multiply, Reduce, Multiply.
    Tops: one, the axes of the bottom in front of ``axis``; with axis 0 a single number.
    Source: caffe ``src/caffe/layers/reduction_layer.cpp``.
    """
    param = layer.param
    axis = canonical_axis(param.axis, x.shape, "axis")
    if param.operation == param.ASUM:
        x = abs(x)
    if param.operation == param.SUMSQ:
        x = x * x
    kind = ReduceKind.MEAN if param.operation == param.MEAN else ReduceKind.SUM
    return [x.apply(Reduce(kind, tuple(range(axis, len(x.shape))), keep=False)).scaled(param.coeff)]


@layer_rule("MIL")
def multiple_instances(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """One number for each channel of an image, of those at all places. From visual-concepts; for regions from R*CNN.

    Becomes: Reduce; Subtract, Log, Exp, Maximum; Slice, Reshape.
    ``type`` MAX takes the largest. NOR takes the chance that at least one place is true, 1 minus the product of all
    ``1 - x``, but no less than the largest. With ``context_per_roi``, the largest of so many items in a row.
    Bottoms: (N, C, H, W), or items (R context_per_roi, C). Tops: (N, C, 1, 1), or (R, C, 1, 1).
    Source: MSRCCS/Caffe and WalterMa/caffe-fast-rcnn ``src/caffe/layers/mil_layer.cpp``.
    """
    if layer.param.HasField("context_per_roi"):
        return [_largest_of_items(layer, exact(x), int(layer.param.context_per_roi))]
    expect_axes(layer, 0, x, "(N, C, H, W)")
    chances = exact(x)
    y = chances.largest(2, 3)
    if layer.param.type == layer.param.NOR:
        not_there = (1 - chances).at_least(0)  # a rounded chance may be a little above 1
        y = (1 - not_there.log().sum(2, 3).exp()).at_least(y)
    return [y.reshape(*x.shape[:2], 1, 1)]


def _largest_of_items(layer: Layer, x: Value, count: int) -> Value:
    """The largest of each ``count`` items; those after the last whole group are left out."""
    if len(x.shape) < 2 or numbers_of(x.shape, 2) != 1:
        because = "a region has one number for each channel"
        raise misfit(layer, 0, x, "(R * context_per_roi, C)", "pool the regions first", because)
    if count < 1:
        raise NetError(f"context_per_roi is {count}, expected at least 1", fix="set it in mil_param")
    items, channels = x.shape[:2]
    regions = computable(items, "axis 0 (regions)") // count
    if range_of(regions).max < 1:
        because = f"context_per_roi is {count}: so many items are one region"
        raise misfit(layer, 0, x, "(R * context_per_roi, C)", "give it more regions", because)
    whole = x.reshape(items, channels).slice(0, 0, regions * count).reshape(regions, count, channels)
    return whole.largest(1).reshape(regions, channels, 1, 1)


@layer_rule("ArgMax")
def argmax(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The indices of the ``top_k`` largest elements, or their values; among equal elements the last comes first.

    Becomes: TopK, Cast, Concat, Reshape.
    Tops: with ``axis`` the shape of the bottom, with top_k elements along axis: indices, or
    values with ``out_max_val``. Without ``axis`` (N, 1, top_k) indices into each flattened
    item, or (N, 2, top_k) indices and then values; with as many axes as the bottom, at least 3.
    Source: caffe ``src/caffe/layers/argmax_layer.cpp``.
    """
    param = layer.param
    if not x.shape:
        raise misfit(layer, 0, x, "at least one axis", CUT_BEFORE_LAYER)
    if param.HasField("axis"):
        axis = canonical_axis(param.axis, x.shape, "axis")
        values, indices = _top(build, layer, axis, x)
        return [values if param.out_max_val else indices]
    items = build.reshape(x, (x.shape[0], open_count(x.shape[1:], "a flattened axis")), hint="items")
    values, indices = _top(build, layer, 1, items)
    rows: Shape = (x.shape[0], 1, param.top_k)
    y = build.reshape(indices, rows)
    if param.out_max_val:
        y = build.add(Concat(1), y, build.reshape(values, rows))
    return [build.reshape(y, (*y.shape, *(1,) * (len(x.shape) - 3)))]


def _top(build: LayerBuilder, layer: Layer, axis: int, x: Value) -> tuple[Value, Value]:
    """The largest elements along the axis and their indices, both as floats."""
    count, size = layer.param.top_k, computable(x.shape[axis], f"axis {axis}")
    least = range_of(size).min
    if not 1 <= count <= least:
        raise NetError(
            f"top_k is {count}, expected 1 to {least}",
            because=f"there are {sizes_of(size)} elements to choose from",
            fix=f"set top_k to {least} or less" if count else "remove top_k to use 1",
        )
    values, indices = build.add_all(TopK(axis, count), x)
    return values, build.add(Cast(DType.FLOAT32), indices)
