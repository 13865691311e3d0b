"""Regions of interest: which image each one belongs to, its corners, and bins that read different channels."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.bottoms import exact, numbers_of
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, misfit, positive_sizes
from prototrt.surgery.images.sampling import Tap, cross, pixel_rows, sampled
from prototrt.surgery.ir import AtMost, DType, Size, computable, fixed
from prototrt.surgery.ops import Gather, MatMul

MOST_BINS = 1024
"""Along one axis of a region: nets have 7 to 14."""
LEAST_SIDE = 0.1
"""Elements: a region without extent has this."""


@dataclass(frozen=True, slots=True)
class Rois:
    """R regions of N images of ``height`` x ``width`` elements; all expressions are (R, 1).

    Corners count in pixels of the net's input, x from the left and y from the top.
    """

    image: Value
    left: Value
    top: Value
    right: Value
    bottom: Value
    images: Size
    height: Size
    width: Size

    def origins(self, step: Size) -> Value:
        """Where the image of each roi begins in a table with ``step`` rows per image: int32.

        The evaluators refuse a number without an image; TensorRT then reads the first image.
        """
        build = self.image.build
        starts = build.counted_numbers(self.images, "images", step=step)
        pick = Gather("a roi's image", "images of the batch")
        return build.add(pick, starts, self.image)

    def padded(self, ratio: float) -> Rois:
        """Both ends of each side moved outwards by ``ratio`` times the side, in pixels."""
        if ratio == 0:
            return self
        across, down = (self.right - self.left + 1) * ratio, (self.bottom - self.top + 1) * ratio
        return Rois(
            self.image,
            self.left - across,
            self.top - down,
            self.right + across,
            self.bottom + down,
            self.images,
            self.height,
            self.width,
        )


def read_rois(build: Builder, layer: Layer, x: Value, rois: Value, *, one_per_image: bool = False) -> Rois:
    """The rois in the second bottom: (R, 5) or (R, 5, 1, 1), each an image's number and x1, y1, x2, y2.

    The first bottom must be (N, C, H, W). With ``one_per_image`` they may be (N, 4), one for each image.
    Raises ``ShapeError``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    sizes = [
        computable(x.shape[axis], what)
        for axis, what in ((0, "the batch"), (2, "the height"), (3, "the width"))
    ]
    if one_per_image and rois.shape[:1] == x.shape[:1] and numbers_of(rois.shape, 1) == 4:
        image = build.aligned(build.counted_numbers(sizes[0], "images"), 2, 0)
        left, top, right, bottom = exact(rois).reshape(rois.shape[0], 4).split(1)
        return Rois(image, left, top, right, bottom, *sizes)
    if len(rois.shape) < 2 or numbers_of(rois.shape, 1) != 5:
        because = "a roi is the number of its image, and x1, y1, x2 and y2"
        fix = "give it the rois of a proposal layer, or such an input"
        raise misfit(layer, 1, rois, "(R, 5)", fix, because)
    image, left, top, right, bottom = exact(rois).reshape(rois.shape[0], 5).split(1)
    if isinstance(rois.shape[0], AtMost):
        image = image.at_least(0)  # the rows after the last roi belong to image -1
    return Rois(image.cast(DType.INT32), left, top, right, bottom, *sizes)


def pooled_size(layer: Layer) -> tuple[int, int]:
    """``pooled_h`` and ``pooled_w``. Raises ``NetError``."""
    rows, columns = positive_sizes(
        layer.param, "pooled_h", "pooled_w", fix="set both to 1 or more", most=MOST_BINS
    )
    return rows, columns


def rounded(x: Value) -> Value:
    """To whole numbers, halves away from zero, as C's ``round``."""
    size = x.at_least(0 - x)
    whole = size.floor()
    up = whole + (size - whole >= 0.5).cast(DType.FLOAT32)
    return (x < 0).chosen(0 - up, up)


def counted_from(build: Builder, start: int, count: Size, rank: int, axis: int) -> Value:
    """``count`` whole numbers from ``start`` on, as floats along one of ``rank`` axes."""
    numbers = build.counted_numbers(count, "bins", first=start, dtype=DType.FLOAT32)
    return build.aligned(numbers, rank, axis)


def sampled_regions(x: Value, rois: Rois, ys: list[Tap], xs: list[Tap]) -> Value:
    """The map where the taps of rows (R, P) and columns (R, Q) cross: (R, P, Q, C)."""
    count = rois.image.shape[0]
    origin = rois.origins(rois.height * rois.width).reshape(count, 1, 1)
    rows, columns = cross(ys, xs)
    return sampled(pixel_rows(x), origin, rows, columns, rois.width)


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
