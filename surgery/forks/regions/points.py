"""Regions read at points of a map: of MNC, AffordanceNet, PG-CNN and makefile/frcnn."""

from __future__ import annotations

from prototrt.surgery.rules import (
    DType,
    Layer,
    LayerBuilder,
    NetError,
    Size,
    Value,
    across,
    as_number,
    computable,
    counted_from,
    edges_of_bins,
    exact,
    expect_axes,
    layer_rule,
    linear_taps,
    misfit,
    pixel_rows,
    plural,
    pooled_size,
    positive_sizes,
    range_of,
    read_rois,
    read_sensitive,
    rounded,
    sampled_regions,
    sums_of_bins,
)


@layer_rule("ROIWarping")
def roi_warping(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> list[Value]:
    """The map at ``pooled_h`` x ``pooled_w`` points of each region, between its elements; 0 outside. From MNC.

    Becomes: Gather and arithmetic.
    Corners are scaled and rounded; point i is i times the side over the number of points after the first corner.
    Bottoms: (N, C, H, W), rois (R, 5). Tops: (R, C, pooled_h, pooled_w).
    Source: daijifeng001/caffe-mnc ``src/caffe/layers/roi_warping_layer.cu``.
    """
    regions, size = read_rois(build, layer, x, rois), pooled_size(layer)
    scale = float(layer.param.spatial_scale)
    ys, in_height = _warp(build, regions.top * scale, regions.bottom * scale, size[0], regions.height)
    xs, in_width = _warp(build, regions.left * scale, regions.right * scale, size[1], regions.width)
    points = sampled_regions(x, regions, linear_taps(ys, regions.height), linear_taps(xs, regions.width))
    is_inside = across(in_height, 2) & across(in_width, 1)
    return [is_inside.reshape(*is_inside.shape, 1).chosen(points, 0).transpose(0, 3, 1, 2)]


def _warp(build: LayerBuilder, start: Value, end: Value, count: int, size: Size) -> tuple[Value, Value]:
    """``count`` places from the first corner on, cut to the map, and which of them were on it: (R, places)."""
    start = rounded(start)
    step = (rounded(end) - start).at_least(0) / count
    places = start + counted_from(build, 0, count, 2, 1) * step
    is_inside = (places >= -0.5) & ~(places > as_number(build, size, 2) - 0.5)
    return is_inside.chosen(places.at_least(0).at_most(size - 1), 0), is_inside


@layer_rule("ROIAlignment")
def roi_alignment(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> list[Value]:
    """The map in the middle of each bin of each region, between its elements. From AffordanceNet.

    Becomes: Gather and arithmetic.
    Corners are scaled, not rounded; a side has one element more than its ends differ, and at least one. The
    ``pooled_h`` x ``pooled_w`` bins are cut to the map before their middles are taken.
    Bottoms: (N, C, H, W), rois (R, 5). Tops: (R, C, pooled_h, pooled_w).
    Source: nqanh/affordance-net ``caffe-affordance-net/src/caffe/layers/roi_alignment_layer.cpp``.
    """
    regions, size = read_rois(build, layer, x, rois), pooled_size(layer)
    scale = float(layer.param.spatial_scale)
    ys = _middles(build, regions.top * scale, regions.bottom * scale, size[0], regions.height)
    xs = _middles(build, regions.left * scale, regions.right * scale, size[1], regions.width)
    points = sampled_regions(x, regions, linear_taps(ys, regions.height), linear_taps(xs, regions.width))
    return [points.transpose(0, 3, 1, 2)]


def _middles(build: LayerBuilder, start: Value, end: Value, count: int, size: Size) -> Value:
    """The middles of ``count`` bins that are cut to the map: (R, count)."""
    side = (end - start + 1).at_least(1) / count
    edges = (start + counted_from(build, first, count, 2, 1) * side for first in (0, 1))
    low, high = (edge.at_least(0).at_most(size - 1) for edge in edges)
    return (low + high) * 0.5


@layer_rule("MultiROIPooling")
def multi_roi_pooling(build: LayerBuilder, layer: Layer, x: Value, landmarks: Value) -> list[Value]:
    """A window of the map around each landmark, a top for each; 0 outside the map. From PG-CNN.

    Becomes: Gather and arithmetic.
    A window begins at ``round(spatial_scale * landmark - pooled / 2)``, where half of an odd size is rounded down.
    Bottoms: (N, C, H, W), landmarks (N, R, 2), each x and y. Tops: R of (N, C, pooled_h, pooled_w).
    Source: mysee1989/PG-CNN ``src/multi_roi_pooling_layer.cu``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    size, count = pooled_size(layer), len(layer.tops)
    if layer.param.top_num != count:
        raise NetError(
            f"top_num is {layer.param.top_num}, but the layer has {plural(count, 'top')}",
            fix=f"set top_num to {count}, or change the tops",
        )
    if landmarks.shape != (x.shape[0], count, 2):
        because = "each top is of one landmark, which is x and y"
        fix = "give it as many landmarks as tops"
        raise misfit(layer, 1, landmarks, f"({x.shape[0]}, {count}, 2)", fix, because)
    items, channels, height, width = (computable(dim, f"axis {axis}") for axis, dim in enumerate(x.shape))
    if range_of(height).min < size[0] or range_of(width).min < size[1]:
        because = "the fork reads beyond the rows of a smaller map"
        raise misfit(layer, 0, x, f"at least {size[0]} x {size[1]} elements", "use smaller windows", because)
    across, down = exact(landmarks).split(2)
    rows, in_height = _places_around(build, down, size[0], height, float(layer.param.spatial_scale))
    columns, in_width = _places_around(build, across, size[1], width, float(layer.param.spatial_scale))
    starts = build.counted_numbers(items, "images", step=height * width)
    origin = build.aligned(starts, 4, 0)
    windows = (items, count, size[0], 1), (items, count, 1, size[1])
    places = origin + rows.reshape(*windows[0]) * width + columns.reshape(*windows[1])
    is_inside = in_height.reshape(*windows[0], 1) & in_width.reshape(*windows[1], 1)
    cut = is_inside.chosen(pixel_rows(x).gathered(places), 0).transpose(1, 0, 4, 2, 3)
    return [each.reshape(items, channels, *size) for each in cut.split(0)]


def _places_around(
    build: LayerBuilder, landmark: Value, count: int, size: Size, scale: float
) -> tuple[Value, Value]:
    """``count`` elements around each landmark (N, R, 1), cut to the map, and which of them were on it."""
    places = rounded(landmark * scale - count // 2) + counted_from(build, 0, count, 3, 2)
    is_inside = (places >= 0) & ~(places > size - 1)
    return places.at_least(0).at_most(size - 1).cast(DType.INT32), is_inside


_MOST_SAMPLES = 64


@layer_rule("PSROIAlign")
def psroi_align(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> list[Value]:
    """The mean of points in each bin of each region, each bin from channels of its own. From makefile/frcnn.

    Becomes: MatMul, Reduce and arithmetic.
    Corners are scaled, not rounded. ``sample_num`` x ``sample_num`` points a bin are read between the elements; points
    beyond the end of a bin that is cut to the map count as 0.
    Bottoms: (N, output_dim group_size^2, H, W), rois (R, 5). Tops: (R, output_dim, group_size, group_size).
    Source: makefile/frcnn ``src/caffe/RFCN/psroi_align_layer.cpp``.
    """
    fix = "set sample_num in psroi_align_param"
    (count,) = positive_sizes(layer.param, "sample_num", fix=fix, most=_MOST_SAMPLES)
    regions, group, scale = read_sensitive(build, layer, x, rois)
    down = _point_weights(
        build, regions.top * scale, (regions.bottom + 1) * scale, group, regions.height, count
    )
    across = _point_weights(
        build, regions.left * scale, (regions.right + 1) * scale, group, regions.width, count
    )
    return [sums_of_bins(build, x, regions, down, across, group)]


def _point_weights(
    build: LayerBuilder, start: Value, end: Value, group: int, size: Size, count: int
) -> Value:
    """What each element of an axis counts in the ``count`` points of each bin: (R, group, size)."""
    low, high, side = edges_of_bins(build, start, end, group)
    low, high = (edge.at_least(0).at_most(size - 1) for edge in (low, high))
    low, high, step = (each.reshape(*each.shape, 1) for each in (low, high, side / (count + 1)))
    elements = counted_from(build, 0, size, 3, 2)
    total: Value | None = None
    for place in range(1, count + 1):
        point = low + step * place
        distance = point - elements
        share = (1 - distance.at_least(0 - distance)).at_least(0)
        weight = share * ((point < high).cast(DType.FLOAT32) / count)
        total = weight if total is None else total + weight
    assert total is not None
    return total
