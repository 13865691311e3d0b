"""Regions each of whose bins reads different channels, as in R-FCN."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.images.rois import counted_from, edges_of_bins, read_sensitive, rounded, sums_of_bins
from prototrt.surgery.ir import DType, Size


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


def _mean_weights(build: LayerBuilder, start: Value, end: Value, group: int, size: Size) -> Value:
    """What each element of an axis counts in the mean of each bin: (R, group, size)."""
    low, high, _ = edges_of_bins(build, start, end, group)
    low, high = (
        edge.at_least(0).at_most(size).reshape(*edge.shape, 1) for edge in (low.floor(), high.ceil())
    )
    elements = counted_from(build, 0, size, 3, 2)
    is_inside = (elements >= low) & (elements < high)
    return is_inside.cast(DType.FLOAT32) / (high - low).at_least(1)
