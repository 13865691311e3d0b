"""Regions of interest: which image each one belongs to, and its corners."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.bottoms import exact, numbers_of
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import expect_axes, misfit, positive_sizes
from prototrt.surgery.images.sampling import Tap, cross, pixel_rows, sampled
from prototrt.surgery.ir import AtMost, DType, Size, computable
from prototrt.surgery.ops import Gather

MOST_BINS = 1024
"""Along one axis of a region: nets have 7 to 14."""


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
