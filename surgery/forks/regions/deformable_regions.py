"""Regions whose bins move to where offsets say."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.rules import (
    LEAST_SIDE,
    DType,
    Layer,
    LayerBuilder,
    NetError,
    Rois,
    Size,
    Value,
    computable,
    counted_from,
    exact,
    layer_rule,
    linear_taps,
    misfit,
    positive_sizes,
    read_sensitive,
    rounded,
    sampled,
)

_MOST_SAMPLES = 16


@layer_rule("DeformablePSROIPooling")
def deformable_psroi_pooling(
    build: LayerBuilder, layer: Layer, x: Value, rois: Value, *trans: Value
) -> list[Value]:
    """The mean of points in each bin of each region, each bin from channels of its own and moved by offsets. From
    deformable ConvNets.

    Becomes: Gather, Reduce and arithmetic.
    ``sample_per_part`` x ``sample_per_part`` points a bin are read between the elements; points outside the map do not
    count. An offset, times ``trans_std``, is a share of the region's side. There are as many bins as ``group_size``
    says, so ``pooled_size`` must be the same.
    Bottoms: (N, output_dim group_size^2, H, W), rois (R, 5), without ``no_trans`` offsets
    (R, 2 K, part_size, part_size): x, then y, for each of K parts of the channels.
    Tops: (R, output_dim, group_size, group_size).
    Source: makefile/frcnn ``src/caffe/DeformConv/deformable_psroi_pooling_layer.cpp``.
    """
    param, (regions, group, scale) = layer.param, read_sensitive(build, layer, x, rois)
    _refuse_fields(layer, group)
    moves = None if param.no_trans else _moves(build, layer, trans, group)
    parts = 1 if moves is None else int(moves.shape[1])
    count, samples = computable(rois.shape[0], "the rois"), int(param.sample_per_part)
    down, across = (
        _points(
            build,
            start,
            end,
            None if moves is None else moves.slice(2, axis),
            (group, samples),
            scale,
            1 - axis,
        )
        for axis, (start, end) in ((1, (regions.top, regions.bottom)), (0, (regions.left, regions.right)))
    )
    rows = _is_inside(down, regions.height), down.at_least(0).at_most(regions.height - 1)
    columns = _is_inside(across, regions.width), across.at_least(0).at_most(regions.width - 1)
    seen = sampled(
        _table(x, regions, parts, group),
        _origins(build, regions, parts, group, count),
        linear_taps(rows[1], regions.height),
        linear_taps(columns[1], regions.width),
        regions.width,
    )
    is_inside = (rows[0] & columns[0]).cast(DType.FLOAT32)
    dim, bins = int(param.output_dim), group * group
    total = (
        (seen * is_inside.reshape(*is_inside.shape, 1)).sum(3, 4).reshape(count, parts, bins, dim // parts)
    )
    number = is_inside.sum(3, 4).at_least(1).reshape(*is_inside.shape[:3], 1)
    return [(total / number).transpose(0, 1, 3, 2).reshape(count, dim, group, group)]


def _refuse_fields(layer: Layer, group: int) -> None:
    param = layer.param
    if param.HasField("pooled_size") and param.pooled_size != group:
        raise NetError(
            f"pooled_size is {param.pooled_size}, expected group_size, {group}",
            because="the fork makes group_size x group_size bins, whatever pooled_size says",
            fix="set both to one number",
        )
    fix = "set it in deformable_psroi_pooling_param"
    positive_sizes(param, "sample_per_part", fix=fix, most=_MOST_SAMPLES)


def _moves(build: LayerBuilder, layer: Layer, trans: tuple[Value, ...], group: int) -> Value:
    """How far each bin is moved, in shares of the region's sides: (R, K, 2, bins)."""
    size, dim = int(layer.param.part_size), int(layer.param.output_dim)
    if not trans or size < 1:
        raise NetError(
            f"has {2 + len(trans)} bottoms and part_size {size}, expected 3 and at least 1",
            fix="give it the offsets and their part_size, or set no_trans",
        )
    shape = trans[0].shape
    parts = shape[1] // 2 if len(shape) == 4 and isinstance(shape[1], int) else 0
    if not parts or shape != (shape[0], 2 * parts, size, size) or dim % parts:
        because = f"part_size is {size}, and output_dim {dim}"
        fix = "make K a divisor of output_dim"
        raise misfit(layer, 2, trans[0], f"(R, 2 K, {size}, {size})", fix, because)
    of_bin = [
        row * size // group * size + column * size // group for row in range(group) for column in range(group)
    ]
    table = exact(trans[0]).reshape(shape[0], parts, 2, size * size).transpose(3, 0, 1, 2)
    index = build.constant(np.array(of_bin, np.int32), "parts of bins")
    return table.gathered(index).transpose(1, 2, 3, 0) * float(layer.param.trans_std)


def _points(
    build: LayerBuilder,
    start: Value,
    end: Value,
    moves: Value | None,
    counts: tuple[int, int],
    scale: float,
    axis: int,
) -> Value:
    """Where the points are along y (axis 0) or x: (R, K, bins, samples, 1), or (R, K, bins, 1, samples)."""
    group, samples = counts
    first = rounded(start) * scale - 0.5
    side = ((rounded(end) + 1) * scale - 0.5 - first).at_least(LEAST_SIDE)
    first, side = (each.reshape(each.shape[0], 1, 1, 1, 1) for each in (first, side))
    of_bin = [bin_ // group if axis == 0 else bin_ % group for bin_ in range(group * group)]
    bins = build.constant(np.array(of_bin, np.float32).reshape(1, 1, -1, 1, 1), "bins")
    begin = bins * (side / group) + first
    if moves is not None:
        begin = begin + moves.reshape(*moves.shape[:2], group * group, 1, 1) * side
    return begin + counted_from(build, 0, samples, 5, 3 + axis) * (side / group / samples)


def _is_inside(place: Value, size: Size) -> Value:
    return (place >= -0.5) & (place.build.scalar(size, 5) - 0.5 >= place)


def _table(x: Value, regions: Rois, parts: int, group: int) -> Value:
    """A row for each element of each bin's channels: (N K bins H W, output_dim / K)."""
    each = int(x.shape[1]) // (parts * group * group)
    split = x.reshape(regions.images, parts, each, group * group, regions.height * regions.width)
    rows = regions.images * parts * group * group * regions.height * regions.width
    return split.transpose(0, 1, 3, 4, 2).reshape(rows, each)


def _origins(build: LayerBuilder, regions: Rois, parts: int, group: int, count: Size) -> Value:
    """Where the rows of each bin begin: (R, K, bins, 1, 1)."""
    plane, bins = regions.height * regions.width, group * group
    of_image = regions.origins(plane * parts * bins).reshape(count, 1, 1, 1, 1)
    of_bin = build.counted_numbers(parts * bins, "bins", step=plane)
    return of_image + of_bin.reshape(1, parts, bins, 1, 1)
