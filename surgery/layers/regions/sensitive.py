"""Regions each of whose bins reads different channels, as in R-FCN."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, misfit
from prototrt.surgery.building.limits import refuse_large
from prototrt.surgery.ir import DType, Size, computable, fixed
from prototrt.surgery.layers.regions.rois import Rois, counted_from, read_rois, rounded
from prototrt.surgery.ops import MatMul

_MOST_SAMPLES = 64
LEAST_SIDE = 0.1
"""Elements: a region without extent has this."""


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
    return [_weighted(build, x, regions, down, across, group)]


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
    return [_weighted(build, x, regions, down, across, group)]


def read_sensitive(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> tuple[Rois, int, float]:
    """The rois, ``group_size`` and ``spatial_scale``; the channels of the first bottom fit the fields."""
    regions = read_rois(build, layer, x, rois)
    param = layer.param
    group, dim = int(param.group_size), int(param.output_dim)
    if min(group, dim) < 1:
        raise NetError(
            f"output_dim is {dim} and group_size {group}, expected at least 1",
            fix="set both to 1 or more",
        )
    if fixed(x.shape[1], "axis 1 (channels)") != dim * group**2:
        because = f"output_dim is {dim} and group_size {group}"
        fix = "use another output_dim or group_size, or a Convolution before it with as many outputs"
        raise misfit(layer, 0, x, f"{dim * group**2} channels", fix, because)
    return regions, group, float(param.spatial_scale)


def _edges(build: LayerBuilder, start: Value, end: Value, group: int) -> tuple[Value, Value, Value]:
    """Where the bins begin and end, uncut, (R, group) each; and their side (R, 1)."""
    side = (end - start).at_least(LEAST_SIDE) / group
    bins = counted_from(build, 0, group, 2, 1)
    return bins * side + start, (bins + 1) * side + start, side


def _mean_weights(build: LayerBuilder, start: Value, end: Value, group: int, size: Size) -> Value:
    """What each element of an axis counts in the mean of each bin: (R, group, size)."""
    low, high, _ = _edges(build, start, end, group)
    low, high = low.floor().at_least(0).at_most(size), high.ceil().at_least(0).at_most(size)
    elements = counted_from(build, 0, size, 3, 2)
    is_inside = (elements >= _in_front(low)) & (elements < _in_front(high))
    return is_inside.cast(DType.FLOAT32) / _in_front((high - low).at_least(1))


def _point_weights(
    build: LayerBuilder, start: Value, end: Value, group: int, size: Size, count: int
) -> Value:
    """What each element of an axis counts in the ``count`` points of each bin: (R, group, size)."""
    low, high, side = _edges(build, start, end, group)
    step = side / (count + 1)
    low, high = (edge.at_least(0).at_most(size - 1) for edge in (low, high))
    elements = counted_from(build, 0, size, 3, 2)
    total: Value | None = None
    for place in range(1, count + 1):
        point = low + step * place
        distance = _in_front(point) - elements
        share = (1 - distance.at_least(0 - distance)).at_least(0)
        weight = share * _in_front((point < high).cast(DType.FLOAT32) / count)
        total = weight if total is None else total + weight
    assert total is not None
    return total


def _in_front(x: Value) -> Value:
    """(R, group) as (R, group, 1)."""
    return x.reshape(*x.shape, 1)


def _weighted(build: LayerBuilder, x: Value, rois: Rois, down: Value, across: Value, group: int) -> Value:
    """Sums over the map with weights (R, group, H) and (R, group, W): (R, channels / group^2, group, group).

    Columns first, as products with the map; of the few sums that are left, rows.
    """
    count, dim = rois.image.shape[0], fixed(x.shape[1], "axis 1 (channels)") // group**2
    maps = x.reshape(rois.images, dim, group, group, rois.height, rois.width)
    inner = dim * group * rois.height
    maps = maps.transpose(0, 3, 5, 1, 2, 4).reshape(rois.images, group, rois.width, inner)
    columns = across.transpose(1, 0, 2).reshape(1, group, count, rois.width)
    sums = columns.apply(MatMul(), maps).named("columns")
    if rois.images == 1:
        own = sums.reshape(group, count, inner).transpose(1, 0, 2)
    else:  # of what was summed over every image, each roi reads its own
        rois_in_images = sums.transpose(0, 2, 1, 3)
        number = computable(count, "the rois")
        table = rois_in_images.reshape(rois.images * number, group, inner)
        places = counted_from(build, 0, number, 1, 0).cast(DType.INT32)
        own = table.gathered(rois.origins(number).reshape(number) + places)
    cells = own.reshape(count, group, dim, group, rois.height) * down.reshape(count, 1, 1, group, rois.height)
    return cells.sum(4).reshape(count, group, dim, group).transpose(0, 2, 3, 1)
