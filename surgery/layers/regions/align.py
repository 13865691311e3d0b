"""Regions read at points of the map, or between its elements."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.expression import Value, as_number
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.building.layer_rules import which_fork
from prototrt.surgery.images.rois import Rois, counted_from, pooled_size, read_rois, sampled_regions
from prototrt.surgery.images.sampling import Tap, across, linear_taps
from prototrt.surgery.ir import DType, Size

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


def _corners(build: LayerBuilder, layer: Layer, x: Value, rois: Rois, size: tuple[int, int]) -> Value:
    """Cascade R-CNN: (R, pooled_h + 1, pooled_w + 1, C)."""
    scale = float(layer.param.spatial_scale)
    ys, in_height = _corner_places(build, rois.top * scale, rois.bottom * scale, size[0], rois.height)
    xs, in_width = _corner_places(build, rois.left * scale, rois.right * scale, size[1], rois.width)
    is_inside = across(in_height, 2) & across(in_width, 1)
    points = sampled_regions(x, rois, linear_taps(ys, rois.height), linear_taps(xs, rois.width))
    return is_inside.reshape(*is_inside.shape, 1).chosen(points, 0)


def _corner_places(
    build: LayerBuilder, start: Value, end: Value, count: int, size: Size
) -> tuple[Value, Value]:
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
    ys = _middle_places(build, rois.top * scale, rois.bottom * scale, size[0], rois.height, scale)
    xs = _middle_places(build, rois.left * scale, rois.right * scale, size[1], rois.width, scale)
    taps = _cubic_taps if param.bi_type == _BICUBIC else _fading_taps
    return sampled_regions(x, rois, taps(ys, rois.height), taps(xs, rois.width))


def _middle_places(
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
