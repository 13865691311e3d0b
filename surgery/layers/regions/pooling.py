"""The largest elements of regions, and of stretches of time."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.bottoms import exact, numbers_of
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    expect_axes,
    layer_rule,
    misfit,
    positive_sizes,
)
from prototrt.surgery.images.region_maxima import Maxima, bins_along, largest_in_bins, pooled_regions
from prototrt.surgery.images.rois import Rois, pooled_size, read_rois
from prototrt.surgery.ir import AtMost, DType, computable, fixed


@layer_rule("ROIPooling")
def roi_pooling(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> list[Value]:
    """The largest element of each bin of each region, 0 where a bin is empty. From Fast R-CNN.

    Becomes: MaxPool, Gather and arithmetic.
    Corners are scaled and rounded; a region has at least one pixel. Its ``pooled_h`` x ``pooled_w`` bins may overlap,
    and are cut to the map. With ``pad_ratio``, of MS-CNN, regions are first widened.
    Bottoms: (N, C, H, W), rois (R, 5). Tops: (R, C, pooled_h, pooled_w).
    R-C3D: with ``pooled_l`` regions of time (R, 3), each an image's number, x1 and x2, times ``temporal_scale``, of a
    bottom (N, C, L, H, W). Of each step the first 7 x 7 elements are read. Tops: (R, C, pooled_l, pooled_h, pooled_w).
    CNN_tabletennis: regions (N, 4), one for each image.
    Source: rbgirshick/caffe-fast-rcnn, zhaoweicai/mscnn and BrotherJing/caffe
    ``src/caffe/layers/roi_pooling_layer.cpp``;
    VisionLearningGroup/R-C3D ``caffe3d/src/caffe/layers/roi_pooling_layer.cpp``.
    """
    if layer.param.HasField("pooled_l"):
        return [_pool_in_time(build, layer, x, rois)]
    regions = read_rois(build, layer, x, rois, one_per_image=True).padded(float(layer.param.pad_ratio))
    return [pooled_regions(build, x, regions, pooled_size(layer), float(layer.param.spatial_scale))]


_SIDE_OF_STEP = 7
"""Elements of a step that R-C3D reads along its height and width, whatever the map has."""


def _pool_in_time(build: LayerBuilder, layer: Layer, x: Value, stretches: Value) -> Value:
    """The largest element of each bin in time, of each of the constant bins of a step."""
    param = layer.param
    expect_axes(layer, 0, x, "(N, C, L, H, W)")
    if numbers_of(stretches.shape, 1) != 3:
        because = "a stretch of time is the number of its item, x1 and x2"
        raise misfit(layer, 1, stretches, "(R, 3)", "give it the rois of a proposal layer of R-C3D", because)
    (bins,) = positive_sizes(param, "pooled_l", fix="set it in roi_pooling_param")
    rows, columns = pooled_size(layer)
    steps = _bins_of_steps(x, rows, columns)
    items, channels, length = (computable(size, "a size of the bottom") for size in x.shape[:3])
    places = fixed(channels, "axis 1 (channels)") * rows * columns
    line = steps.transpose(0, 1, 3, 4, 2).reshape(items, places, length, 1)
    count = stretches.shape[0]
    image, begin, end = exact(stretches).reshape(count, 3).split(1)
    if isinstance(count, AtMost):
        image = image.at_least(0)  # the rows after the last stretch belong to item -1
    nothing = begin * 0
    regions = Rois(image.cast(DType.INT32), nothing, begin, nothing, end, items, length, 1)
    scale = float(param.temporal_scale)
    tall = bins_along(build, begin * scale, end * scale, bins, length)
    wide = bins_along(build, nothing, nothing, 1, 1)
    largest = largest_in_bins(Maxima.of(build, line), regions, tall, wide)
    tops = tall.along(tall.is_empty, 1, 4).chosen(0, largest).reshape(count, bins, channels, rows, columns)
    return tops.transpose(0, 2, 1, 3, 4)


def _bins_of_steps(x: Value, rows: int, columns: int) -> Value:
    """The largest elements of the constant bins of x (N, C, L, H, W): (N, C, L, rows, columns). An empty one is 0."""
    y = x
    for axis, count in ((3, rows), (4, columns)):
        size = fixed(x.shape[axis], f"axis {axis}")
        side = np.float32(_SIDE_OF_STEP) / np.float32(count)
        parts = []
        for place in range(count):
            low = min(int(np.floor(np.float32(place) * side)), size)
            high = min(int(np.ceil(np.float32(place + 1) * side)), size)
            seen = y.slice(axis, low, high - low).largest(axis) if high > low else y.slice(axis, 0) * 0
            parts.append(seen)
        y = concatenate(parts, axis)
    return y
