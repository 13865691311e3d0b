"""Regions each of whose bins reads different channels, as in R-FCN."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.building.limits import refuse_large
from prototrt.surgery.images.rois import counted_from, rounded
from prototrt.surgery.images.sensitive_regions import edges_of_bins, in_front, read_sensitive, sums_of_bins
from prototrt.surgery.ir import DType, Size

_MOST_SAMPLES = 64


@layer_rule("PSROIPooling")
def psroi_pooling(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> list[Value]:
    """The mean of each bin of each region, each bin from channels of its own; 0 where it is empty. From R-FCN.

    Becomes: MatMul, Reduce and arithmetic.
    Corners are rounded, then scaled. Bin (i, j) of ``group_size`` x ``group_size`` reads of channel c of the top the
    channel ``(c * group_size + i) * group_size + j`` of the bottom.
    Bottoms: (N, output_dim group_size^2, H, W), rois (R, 5). Tops: (R, output_dim, group_size, group_size).
    Source: daijifeng001/caffe-rfcn ``src/caffe/layers/psroi_pooling_layer.cu``, makefile/frcnn
    ``src/caffe/RFCN/psroi_pooling_layer.cpp``.
    """
    regions, group, scale = read_sensitive(build, layer, x, rois)
    ends = (rounded(regions.top), rounded(regions.bottom)), (rounded(regions.left), rounded(regions.right))
    sizes = regions.height, regions.width
    down, across = (
        _mean_weights(build, start * scale, (end + 1) * scale, group, size)
        for (start, end), size in zip(ends, sizes, strict=True)
    )
    return [sums_of_bins(build, x, regions, down, across, group)]


@layer_rule("PSROIAlign")
def psroi_align(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> list[Value]:
    """The mean of points in each bin of each region, each bin from channels of its own. From makefile/frcnn.

    Becomes: MatMul, Reduce and arithmetic.
    Corners are scaled, not rounded. ``sample_num`` x ``sample_num`` points a bin are read between the elements; points
    beyond the end of a bin that is cut to the map count as 0.
    Bottoms: (N, output_dim group_size^2, H, W), rois (R, 5). Tops: (R, output_dim, group_size, group_size).
    Source: makefile/frcnn ``src/caffe/RFCN/psroi_align_layer.cpp``.
    """
    count = int(layer.param.sample_num)
    if count < 1:
        raise NetError(
            f"sample_num is {count}, expected at least 1", fix="set sample_num in psroi_align_param"
        )
    refuse_large("sample_num", count, _MOST_SAMPLES)
    regions, group, scale = read_sensitive(build, layer, x, rois)
    down = _point_weights(
        build, regions.top * scale, (regions.bottom + 1) * scale, group, regions.height, count
    )
    across = _point_weights(
        build, regions.left * scale, (regions.right + 1) * scale, group, regions.width, count
    )
    return [sums_of_bins(build, x, regions, down, across, group)]


def _mean_weights(build: LayerBuilder, start: Value, end: Value, group: int, size: Size) -> Value:
    """What each element of an axis counts in the mean of each bin: (R, group, size)."""
    low, high, _ = edges_of_bins(build, start, end, group)
    low, high = low.floor().at_least(0).at_most(size), high.ceil().at_least(0).at_most(size)
    elements = counted_from(build, 0, size, 3, 2)
    is_inside = (elements >= in_front(low)) & (elements < in_front(high))
    return is_inside.cast(DType.FLOAT32) / in_front((high - low).at_least(1))


def _point_weights(
    build: LayerBuilder, start: Value, end: Value, group: int, size: Size, count: int
) -> Value:
    """What each element of an axis counts in the ``count`` points of each bin: (R, group, size)."""
    low, high, side = edges_of_bins(build, start, end, group)
    step = side / (count + 1)
    low, high = (edge.at_least(0).at_most(size - 1) for edge in (low, high))
    elements = counted_from(build, 0, size, 3, 2)
    total: Value | None = None
    for place in range(1, count + 1):
        point = low + step * place
        distance = in_front(point) - elements
        share = (1 - distance.at_least(0 - distance)).at_least(0)
        weight = share * in_front((point < high).cast(DType.FLOAT32) / count)
        total = weight if total is None else total + weight
    assert total is not None
    return total
