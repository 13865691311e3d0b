"""Regions of interest each of whose bins reads different channels, as in R-FCN."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, misfit, positive_sizes
from prototrt.surgery.images.rois import Rois, counted_from, read_rois
from prototrt.surgery.ir import DType, computable, fixed
from prototrt.surgery.ops import MatMul

LEAST_SIDE = 0.1
"""Elements: a region without extent has this."""


def read_sensitive(build: LayerBuilder, layer: Layer, x: Value, rois: Value) -> tuple[Rois, int, float]:
    """The rois, ``group_size`` and ``spatial_scale``; the channels of the first bottom fit the fields."""
    regions = read_rois(build, layer, x, rois)
    param = layer.param
    dim, group = positive_sizes(param, "output_dim", "group_size", fix="set both to 1 or more")
    if fixed(x.shape[1], "axis 1 (channels)") != dim * group**2:
        because = f"output_dim is {dim} and group_size {group}"
        fix = "use another output_dim or group_size, or a Convolution before it with as many outputs"
        raise misfit(layer, 0, x, f"{dim * group**2} channels", fix, because)
    return regions, group, float(param.spatial_scale)


def edges_of_bins(build: LayerBuilder, start: Value, end: Value, group: int) -> tuple[Value, Value, Value]:
    """Where the bins begin and end, uncut, (R, group) each; and their side (R, 1)."""
    side = (end - start).at_least(LEAST_SIDE) / group
    bins = counted_from(build, 0, group, 2, 1)
    return bins * side + start, (bins + 1) * side + start, side


def sums_of_bins(build: LayerBuilder, x: Value, rois: Rois, down: Value, across: Value, group: int) -> Value:
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
