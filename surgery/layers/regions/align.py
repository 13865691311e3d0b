"""Regions read at points of the map, or between its elements."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import plural
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.expression import Value, as_number
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, misfit
from prototrt.surgery.building.layer_rules import which_fork
from prototrt.surgery.images.rois import Rois, counted_from, pooled_size, read_rois, rounded
from prototrt.surgery.images.sampling import Tap, across, crossed, linear_taps, pixel_rows, sampled
from prototrt.surgery.ir import DType, Size, computable, range_of

_BICUBIC = 1


@layer_rule("ROIAlign")
def roi_align(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> list[Value]:
    """The map at the corners of the bins of each region, of Cascade R-CNN; at their middles, of makefile/frcnn.

    Becomes: Gather and arithmetic.
    Cascade R-CNN, MS-CNN: ``pooled_h`` + 1 by ``pooled_w`` + 1 points between the corners of a region, which are
    moved by half an element; 0 for points outside the map. In nets, a Pooling that averages four points follows.
    makefile/frcnn, which has ``bi_type`` and ``is_multi_interpolate``: the middle of each bin, cut to the map;
    ``bi_type`` 1 is bicubic, 0 bilinear. As its CPU code does it, ``is_multi_interpolate`` changes nothing.
    Both widen regions by ``pad_ratio``.
    Bottoms: (N, C, H, W), rois (R, 5). Tops: (R, C, pooled_h + 1, pooled_w + 1), or (R, C, pooled_h, pooled_w).
    Source: zhaoweicai/mscnn ``src/caffe/layers/roi_align_layer.cpp``; makefile/frcnn
    ``src/caffe/FRCNN/roi_align/roi_align_layer.cpp``.
    """
    regions = read_rois(build, layer, x, rois).padded(float(layer.param.pad_ratio))
    size = pooled_size(layer)
    has_fork_field = any(layer.param.HasField(name) for name in ("bi_type", "is_multi_interpolate"))
    fork = "makefile" if has_fork_field else which_fork(build, layer, "cascade-rcnn")
    points = (_middles if fork == "makefile" else _corners)(build, layer, x, regions, size)
    return [points.transpose(0, 3, 1, 2)]


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
    ys, in_height = _warped(build, regions.top * scale, regions.bottom * scale, size[0], regions.height)
    xs, in_width = _warped(build, regions.left * scale, regions.right * scale, size[1], regions.width)
    points = _read(x, regions, linear_taps(ys, regions.height), linear_taps(xs, regions.width))
    is_inside = across(in_height, 2) & across(in_width, 1)
    return [is_inside.reshape(*is_inside.shape, 1).chosen(points, 0).transpose(0, 3, 1, 2)]


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
    rows, in_height = _around(build, down, size[0], height, float(layer.param.spatial_scale))
    columns, in_width = _around(build, across, size[1], width, float(layer.param.spatial_scale))
    starts = build.counted_numbers(items, "images", step=height * width)
    origin = build.aligned(starts, 4, 0)
    windows = (items, count, size[0], 1), (items, count, 1, size[1])
    places = origin + rows.reshape(*windows[0]) * width + columns.reshape(*windows[1])
    is_inside = in_height.reshape(*windows[0], 1) & in_width.reshape(*windows[1], 1)
    cut = is_inside.chosen(pixel_rows(x).gathered(places), 0).transpose(1, 0, 4, 2, 3)
    return [each.reshape(items, channels, *size) for each in cut.split(0)]


def _around(
    build: LayerBuilder, landmark: Value, count: int, size: Size, scale: float
) -> tuple[Value, Value]:
    """``count`` elements around each landmark (N, R, 1), cut to the map, and which of them were on it."""
    places = rounded(landmark * scale - count // 2) + counted_from(build, 0, count, 3, 2)
    is_inside = (places >= 0) & ~(places > size - 1)
    return places.at_least(0).at_most(size - 1).cast(DType.INT32), is_inside


def _warped(build: LayerBuilder, start: Value, end: Value, count: int, size: Size) -> tuple[Value, Value]:
    """``count`` places from the first corner on, cut to the map, and which of them were on it: (R, places)."""
    start = rounded(start)
    step = (rounded(end) - start).at_least(0) / count
    places = start + counted_from(build, 0, count, 2, 1) * step
    is_inside = (places >= -0.5) & ~(places > as_number(build, size, 2) - 0.5)
    return is_inside.chosen(places.at_least(0).at_most(size - 1), 0), is_inside


def _corners(build: LayerBuilder, layer: Layer, x: Value, rois: Rois, size: tuple[int, int]) -> Value:
    """Cascade R-CNN: (R, pooled_h + 1, pooled_w + 1, C)."""
    scale = float(layer.param.spatial_scale)
    ys, in_height = _between(build, rois.top * scale, rois.bottom * scale, size[0], rois.height)
    xs, in_width = _between(build, rois.left * scale, rois.right * scale, size[1], rois.width)
    is_inside = across(in_height, 2) & across(in_width, 1)
    points = _read(x, rois, linear_taps(ys, rois.height), linear_taps(xs, rois.width))
    return is_inside.reshape(*is_inside.shape, 1).chosen(points, 0)


def _between(build: LayerBuilder, start: Value, end: Value, count: int, size: Size) -> tuple[Value, Value]:
    """``count`` + 1 places from one end to the other, cut to the map, and which of them were on it: (R, places)."""
    start, end = start - 0.5, end - 0.5
    extent = end - start
    places = start + counted_from(build, 0, count + 1, 2, 1) * (extent / count)
    end_of_map = as_number(build, size, 2) - 0.5
    is_inside = (places >= -0.5) & ~(places > end_of_map) & (extent > 0)
    return is_inside.chosen(places.at_least(0).at_most(size - 1), 0), is_inside


def _middles(build: LayerBuilder, layer: Layer, x: Value, rois: Rois, size: tuple[int, int]) -> Value:
    """makefile/frcnn: (R, pooled_h, pooled_w, C)."""
    param = layer.param
    if param.bi_type not in (0, _BICUBIC):
        raise NetError(
            f"bi_type is {param.bi_type}, expected 0 (bilinear) or 1 (bicubic)", fix="remove bi_type to use 1"
        )
    if param.is_multi_interpolate:
        build.warn("is_multi_interpolate is ignored, as in the CPU code of makefile/frcnn")
    scale = float(param.spatial_scale)
    if scale <= 0:
        raise NetError(f"spatial_scale is {scale:g}, expected more than 0", fix="set it in roi_pooling_param")
    ys = _in_the_middle(build, rois.top * scale, rois.bottom * scale, size[0], rois.height, scale)
    xs = _in_the_middle(build, rois.left * scale, rois.right * scale, size[1], rois.width, scale)
    taps = _cubic_taps if param.bi_type == _BICUBIC else _fading_taps
    return _read(x, rois, taps(ys, rois.height), taps(xs, rois.width))


def _in_the_middle(
    build: LayerBuilder, start: Value, end: Value, count: int, size: Size, scale: float
) -> Value:
    """The middles of ``count`` bins, cut to the map: (R, bins)."""
    start = start.at_least(0)
    # The last pixel is the image's last, although ends are scaled.
    end = end.at_most(_pixels(build, size, scale))
    side = (end - start + 1).at_least(1) / count
    places = (counted_from(build, 0, count, 2, 1) + 0.5) * side + start
    return places.at_least(0).at_most(size - 1)


def _pixels(build: LayerBuilder, size: Size, scale: float) -> Value | float:
    """The number of an image's last pixel, for the size of a map."""
    if isinstance(size, int):
        return float(np.floor(np.float32(size) / np.float32(scale) + np.float32(0.5))) - 1
    return (build.scalar(size, 2) / scale + 0.5).floor() - 1


def _fading_taps(place: Value, size: Size) -> list[Tap]:
    """Both neighbours. At the last element there is no second one, and both weights are 0, as in the fork."""
    low = place.floor()
    high = (low + 1).at_most(size - 1)
    return [Tap(low.cast(DType.INT32), high - place), Tap(high.cast(DType.INT32), place - low)]


def _cubic_taps(place: Value, size: Size) -> list[Tap]:
    """Four neighbours; past the ends, the last element is repeated."""
    low = place.floor()
    near = place - low
    weights = (_far(near + 1), _near(near), _near(1 - near), _far(2 - near))
    neighbours = ((low + step).at_least(0).at_most(size - 1) for step in (-1, 0, 1, 2))
    return [Tap(index.cast(DType.INT32), weight) for index, weight in zip(neighbours, weights, strict=True)]


def _near(x: Value) -> Value:
    return x * x * (x - 2) + 1


def _far(x: Value) -> Value:
    return ((5 - x) * x - 8) * x + 4


def _read(x: Value, rois: Rois, ys: list[Tap], xs: list[Tap]) -> Value:
    """The map where the taps of rows (R, P) and columns (R, Q) cross: (R, P, Q, C)."""
    count = rois.image.shape[0]
    origin = rois.origins(rois.height * rois.width).reshape(count, 1, 1)
    rows, columns = crossed(ys, xs)
    return sampled(pixel_rows(x), origin, rows, columns, rois.width)
