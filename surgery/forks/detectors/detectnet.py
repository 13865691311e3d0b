"""DetectNet's boxes, one for each place of a grid, clustered as OpenCV's ``groupRectangles`` does it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from prototrt.surgery.rules import (
    LOWEST,
    Array,
    Boxes,
    Builder,
    DType,
    Layer,
    LayerBuilder,
    NetError,
    Size,
    UnsupportedLayerError,
    Value,
    best_of_rows,
    computable,
    concatenate,
    exact,
    expect_axes,
    fixed,
    lengthened,
    misfit,
    ops,
    picked,
    python_rule,
    range_of,
    shortened,
)

_LEAST_NUMBERS, _USUAL = 7, (1, 50)
"""Numbers that ``param_str`` must state, and those that may follow: classes and boxes."""
_FIX = "write it as '1248, 352, 16, 0.6, 3, 0.02, 22, 1': width, height, stride, three thresholds, height, classes"
_TABLE = 1 << 14
"""Lengths in pixels whose tolerance is exactly that of OpenCV, which computes it in double."""
MOST_PAIRS = 1 << 24
"""Pairs of places whose overlaps are in memory at the same time: 64 MB of float32."""
_MOST_COUNTED = math.isqrt(MOST_PAIRS) + 1
"""More than a cluster has boxes."""
_DECIDES_BY_COUNT = 3
"""Clusters of fewer boxes may lie in a cluster of any size."""


@dataclass(frozen=True, slots=True)
class _ClusterOptions:
    """What ``param_str`` says, by the names of the source."""

    image_size_x: int
    image_size_y: int
    stride: int
    gridbox_cvg_threshold: float
    gridbox_rect_thresh: int
    gridbox_rect_eps: float
    min_height: int
    num_classes: int
    max_boxes: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.image_size_y // self.stride, self.image_size_x // self.stride

    @property
    def cell(self) -> tuple[int, int]:
        """Height and width of a place, in pixels."""
        return self.image_size_y // self.grid[0], self.image_size_x // self.grid[1]


@python_rule("caffe.layers.detectnet.clustering.ClusterDetections")
def cluster_detections(build: LayerBuilder, layer: Layer, coverage: Value, boxes: Value) -> list[Value]:
    """DetectNet's objects: boxes of all places with enough coverage, grouped by OpenCV's ``groupRectangles``.

    Becomes: TopK, a While with Gather, Select and Reduce, arithmetic.
    Bottoms: coverage (N, C, H, W), corners (N, 4, H, W) in pixels from the place on. Tops: C of them, (N, 50, 5):
    xl, yt, xr, yb and the logarithm of the number of boxes in the cluster, as float16 rounds them up to 16384; behind
    the last object stand rows of 0. Of more objects than rows, where the fork's layer fails, the first stay.
    Source: NVIDIA/caffe ``python/caffe/layers/detectnet/clustering.py``; opencv
    ``modules/objdetect/src/cascadedetect.cpp``, ``groupRectangles``; ``modules/core``, ``partition``;
    ``modules/python/src2/cv2.cpp`` of 2.4 and later, where the numbers of rectangles are rounded.
    """
    how = _read_options(layer)
    _refuse_misfits(layer, how, coverage, boxes)
    images, rows = computable(coverage.shape[0], "the number of images"), min(*how.grid)
    rows = min(rows, fixed(coverage.shape[2], "the height of the grid"))
    columns = fixed(coverage.shape[3], "the width of the grid")
    corners = _corners(build, exact(boxes), how, images, rows, columns)
    scores = exact(coverage).slice(2, 0, rows)
    return [
        _top(build, how, scores.slice(1, index).reshape(images, rows * columns), corners)
        for index in range(how.num_classes)
    ]


def _read_options(layer: Layer) -> _ClusterOptions:
    """The numbers in ``param_str``. Raises ``NetError``."""
    source = layer.param.param_str
    texts = source.split(",")
    try:
        whole = [int(text) for text in (*texts[:3], texts[4], texts[6], *texts[7:9])]
        threshold, eps = float(texts[3]), float(texts[5])
    except (ValueError, IndexError):
        raise NetError(
            f"param_str is {shortened(repr(source))}, expected {_LEAST_NUMBERS} to 9 numbers with commas",
            fix=_FIX,
        ) from None
    width, height, stride, least, min_height, *further = whole
    classes, most = (*further, *_USUAL[len(further) :])
    how = _ClusterOptions(width, height, stride, threshold, least, eps, min_height, classes, most)
    if not (0 < stride <= min(width, height) and classes > 0 and most > 0):
        problem = "expected positive sizes, a stride that fits into them, and at least one class and box"
        raise NetError(f"param_str is {shortened(repr(source))}, {problem}", fix=_FIX)
    if not (math.isfinite(threshold) and math.isfinite(eps) and eps >= 0):
        problem = "expected thresholds that are finite, and an eps of 0 or more"
        raise NetError(f"param_str is {shortened(repr(source))}, {problem}", fix=_FIX)
    if max(width, height) > _TABLE:
        raise UnsupportedLayerError(
            f"the image has {width} x {height} pixels, expected at most {_TABLE} along an axis",
            fix="state the size of the images that the net takes",
        )
    return how


def _refuse_misfits(layer: Layer, how: _ClusterOptions, coverage: Value, boxes: Value) -> None:
    """Raise ``ShapeError`` or ``NetError`` unless the bottoms are two grids of places, as many tops as classes."""
    for index, bottom in enumerate((coverage, boxes)):
        expect_axes(layer, index, bottom, "(N, C, H, W)")
    if coverage.shape[1] != how.num_classes:
        because = "param_str states this number of classes"
        raise misfit(layer, 0, coverage, f"{how.num_classes} channels", _FIX, because)
    expected = (coverage.shape[0], 4, *coverage.shape[2:])
    if boxes.shape != expected:
        fix = "give it the corners of the same grid"
        raise misfit(layer, 1, boxes, expected, fix, "each place has a box")
    if len(layer.tops) != how.num_classes:
        raise NetError(
            f"has {len(layer.tops)} tops, expected {how.num_classes}, one for each class",
            fix="name a top for each class",
        )


def _corners(
    build: LayerBuilder, boxes: Value, how: _ClusterOptions, images: Size, rows: int, columns: int
) -> Boxes:
    """Corners in whole pixels (N, places), which OpenCV takes for a corner and the sides of a rectangle."""
    height, width = how.cell
    down = np.repeat(np.arange(rows) * height, columns)
    across = np.tile(np.arange(columns) * width, rows)
    starts = [build.constant(each[None].astype(np.float32), "start") for each in (across, down)]
    parts = boxes.slice(2, 0, rows).reshape(images, 4, rows * columns).split(1)
    flat = [part.reshape(images, rows * columns) for part in parts]
    return Boxes(*(_round(part, starts[i % 2]) for i, part in enumerate(flat)))


def _round(x: Value, whole: Value | float = 0) -> Value:
    """A number and a whole one, added and rounded without an error of the sum; halves go to the even number."""
    floor = x.floor()
    rest, lower = x - floor, floor + whole
    is_odd = (lower - (lower * 0.5).floor() * 2) > 0
    return (rest > 0.5).chosen(lower + 1, (rest.equals(0.5) & is_odd).chosen(lower + 1, lower))


def _top(build: LayerBuilder, how: _ClusterOptions, scores: Value, corners: Boxes) -> Value:
    """The objects of a class, (N, max_boxes, 5)."""
    least = float(np.nextafter(np.float32(how.gridbox_cvg_threshold), np.float32(-np.inf)))
    is_candidate = scores > least
    if how.min_height <= 0:  # the layer passes over images whose boxes are all 0
        sizes = concatenate([abs(part).reshape(*part.shape, 1) for part in corners.parts], 2).largest(2)
        is_any = is_candidate.chosen(sizes.reshape(*scores.shape), 0).largest(1) > 0
        is_candidate = is_candidate & is_any
    is_candidate, corners = _best_candidates(build, is_candidate, scores, corners)
    if how.gridbox_rect_thresh <= 0:  # OpenCV returns the rectangles as they are
        return _rows(build, how, is_candidate, corners, is_candidate.cast(DType.FLOAT32))
    labels = _labels(is_candidate, corners, how.gridbox_rect_eps)
    kept, clusters, count = _clusters(is_candidate, corners, labels, how.gridbox_rect_thresh)
    is_inside = _is_inside(kept, clusters, count, how.gridbox_rect_eps)
    return _rows(build, how, kept & ~is_inside, clusters, count)


def _best_candidates(
    build: LayerBuilder, is_candidate: Value, scores: Value, corners: Boxes
) -> tuple[Value, Boxes]:
    """All places in their order; or where the pairs of all places would not fit into memory, those of most coverage."""
    images, places = (computable(size, "the number of places") for size in scores.shape)
    count = fixed(places, "the number of places")
    most = math.isqrt(MOST_PAIRS // range_of(images).max)
    if count <= most:
        return is_candidate, corners
    build.warn(
        f"compares the {most} places of most coverage, of {count}: an image in which more have at least"
        " gridbox_cvg_threshold loses the others; use a smaller batch to compare more"
    )
    _, best = best_of_rows(is_candidate.chosen(scores, LOWEST), most, first_of_equals=True)
    # In the order of places, which is the order of the objects.
    order, _ = best_of_rows(best.cast(DType.FLOAT32) * -1, most, first_of_equals=True)
    index = (order * -1).cast(DType.INT32)
    is_candidate = picked(is_candidate.cast(DType.FLOAT32), index) > 0
    return is_candidate, corners.map(lambda part: picked(part, index))


def _labels(is_candidate: Value, corners: Boxes, eps: float) -> Value:
    """The first place of the cluster of each place, (N, n): similar boxes are in one cluster, also over others.

    A round gives each place the smallest label of the places similar to it, then the label of the place that its
    label names, so that a chain needs a number of rounds like its logarithm.
    """
    images = computable(is_candidate.shape[0], "the number of images")
    places = fixed(is_candidate.shape[1], "the number of places")
    build = is_candidate.build
    rows, columns = (_spread(corners, shape) for shape in ((images, places, 1), (images, 1, places)))
    tolerance = _tolerance(rows.third.at_most(columns.third) + rows.fourth.at_most(columns.fourth), eps)
    ends = [(each.first + each.third, each.second + each.fourth) for each in (rows, columns)]
    distance = abs(rows.first - columns.first).at_least(abs(rows.second - columns.second))
    for row, column in zip(*ends, strict=True):
        distance = distance.at_least(abs(row - column))
    pair = is_candidate.reshape(images, places, 1) & is_candidate.reshape(images, 1, places)
    is_similar = (pair & (tolerance >= distance)).cast(DType.FLOAT32)
    start = build.broadcast(_places(build, places), (images, places), "labels")

    inner = build.body()
    before, similar = (
        inner.body_input(hint, outer.shape) for hint, outer in (("labels", start), ("similar", is_similar))
    )
    nearest = (similar > 0).chosen(before.reshape(images, 1, places), float(places)).smallest(2)
    smaller = nearest.reshape(images, places).at_most(before)
    now = picked(smaller, smaller.cast(DType.INT32))
    changes = (before - now).largest(0, 1) > 0
    loop = ops.While(inner.graph("round", [now, changes.reshape()]))
    return build.add(loop, start, is_similar, hint="clusters")


def _spread(boxes: Boxes, shape: tuple[Size, ...]) -> Boxes:
    return boxes.map(lambda part: part.reshape(*shape))


def _places(build: Builder, count: int) -> Value:
    """0, 1, 2, ... as a row of float32."""
    return build.constant(np.arange(count, dtype=np.float32)[None], "places")


def _tolerance(lengths: Value, eps: float) -> Value:
    """How many whole pixels two similar boxes may be apart, by the sum of their smaller sides."""
    exactly = np.floor(eps * np.arange(_TABLE, dtype=np.float64) * 0.5)
    tolerance = _look_up(lengths, exactly, (lengths * (eps / 2)).floor())
    return (lengths >= 0).chosen(tolerance, -1)


def _margin(sides: Value, eps: float) -> Value:
    """How many whole pixels a box may stand out of one that holds it, by a side of the latter."""
    exactly = np.rint(eps * np.arange(_TABLE, dtype=np.float64))
    length = abs(sides)
    margin = _look_up(length, exactly, _round(length * eps))
    return (sides >= 0).chosen(margin, -margin)


def _as_float16(x: Value) -> Value:
    """Whole numbers as float16 has them. A table, because a graph of float32 holds no other type."""
    size = abs(x)
    short = _look_up(size, np.arange(_TABLE).astype(np.float16), size)
    return (x >= 0).chosen(short, -short)


def _look_up(lengths: Value, exactly: Array, otherwise: Value) -> Value:
    """The number of a table for each length that it has, computed in double as OpenCV does."""
    table = lengths.build.constant(exactly.astype(np.float32), "table")
    number = table.gathered(lengths.at_least(0).at_most(len(exactly) - 1).cast(DType.INT32))
    return (lengths < len(exactly)).chosen(number, otherwise)


def _clusters(is_candidate: Value, corners: Boxes, labels: Value, least: int) -> tuple[Value, Boxes, Value]:
    """Clusters of more than ``least`` boxes by their first place: which rows are clusters, the mean box, the count."""
    images, places = is_candidate.shape[0], fixed(is_candidate.shape[1], "the number of places")
    own = _places(is_candidate.build, places)
    same = labels.reshape(images, 1, places).equals(own.reshape(1, places, 1))
    sizes = (same & is_candidate.reshape(images, 1, places)).cast(DType.FLOAT32).sum(2)
    index, is_cluster = _first_of(sizes.reshape(images, places) > least, max(places // (least + 1), 1))
    most = fixed(index.shape[1], "the number of clusters")
    is_member = labels.reshape(images, 1, places).equals(index.cast(DType.FLOAT32).reshape(images, most, 1))
    is_member = is_member & is_candidate.reshape(images, 1, places)
    count = is_member.cast(DType.FLOAT32).sum(2).reshape(images, most)
    share = 1 / count.at_least(1)

    def mean(part: Value) -> Value:
        # Sums, not products: where products compute in a short type, they would not be whole pixels.
        total = is_member.chosen(part.reshape(images, 1, places), 0).sum(2)
        return _round(total.reshape(images, most) * share)

    return is_cluster, corners.map(mean), count


def _first_of(is_chosen: Value, most: int) -> tuple[Value, Value]:
    """The first places (N, most) of each list where this is true, and which of these are places."""
    count = fixed(is_chosen.shape[1], "the number of places")
    key = is_chosen.chosen(-_places(is_chosen.build, count), float(-count))
    first, _ = best_of_rows(key, min(most, count), first_of_equals=True)
    is_place = first > -count
    return is_place.chosen(-first, 0).cast(DType.INT32), is_place


def _is_inside(is_cluster: Value, boxes: Boxes, count: Value, eps: float) -> Value:
    """Which clusters lie in another one that has more boxes, or are themselves of few."""
    images = computable(is_cluster.shape[0], "the number of images")
    most = fixed(is_cluster.shape[1], "the number of clusters")
    mine, others = (_spread(boxes, shape) for shape in ((images, most, 1), (images, 1, most)))
    across, down = _margin(others.third, eps), _margin(others.fourth, eps)
    my_count, other_count = count.reshape(images, most, 1), count.reshape(images, 1, most)
    is_within = (
        (mine.first >= others.first - across)
        & (mine.second >= others.second - down)
        & (others.first + others.third + across >= mine.first + mine.third)
        & (others.second + others.fourth + down >= mine.second + mine.fourth)
    )
    decides = (other_count > my_count.at_least(_DECIDES_BY_COUNT)) | (my_count < _DECIDES_BY_COUNT)
    place = _places(is_cluster.build, most)
    is_other = ~place.reshape(1, most, 1).equals(place.reshape(1, 1, most))
    inside = is_within & decides & is_other & is_cluster.reshape(images, 1, most)
    return (inside.cast(DType.FLOAT32).largest(2) > 0).reshape(images, most)


def _rows(build: LayerBuilder, how: _ClusterOptions, is_kept: Value, boxes: Boxes, count: Value) -> Value:
    """The first objects that are high enough, with the logarithm of their counts, and rows of 0 behind them."""
    is_high = boxes.fourth - boxes.second >= how.min_height
    index, is_row = _first_of(is_kept & is_high, how.max_boxes)
    images, most = is_row.shape[0], fixed(is_row.shape[1], "the number of rows")
    logarithms = np.log(np.maximum(np.arange(_MOST_COUNTED, dtype=np.float64), 1)).astype(np.float16)
    table = build.constant(logarithms.astype(np.float32), "logarithms")
    confidence = table.gathered(picked(count, index).cast(DType.INT32))
    columns = [*(_as_float16(picked(part, index)) for part in boxes.parts), confidence]
    rows = concatenate([column.reshape(images, most, 1) for column in columns], 2)
    rows = is_row.reshape(images, most, 1).chosen(rows, 0)
    return lengthened(rows, 1, how.max_boxes, 0)
