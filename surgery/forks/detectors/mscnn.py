"""The layers of MS-CNN and Cascade R-CNN: proposals from several maps, and boxes moved from stage to stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Boxes,
    Builder,
    DetectionRows,
    DType,
    Layer,
    LayerBuilder,
    NetError,
    Size,
    Suppression,
    Value,
    as_number,
    computable,
    concatenate,
    counted_tops,
    divide,
    element_count,
    exact,
    fixed,
    layer_rule,
    misfit,
    of_corner_and_sides,
    of_pixel_corners_in,
    overlap_threshold,
    picked,
    plural,
    range_of,
    rows_of_images,
    suppressed,
)

_COORDINATES = 4
_WITHOUT_BOX = np.array([[0, 1, 1, 10, 10, 0]], np.float32)
"""The one row of a batch in which no box is found: image, corners, score."""


@dataclass(frozen=True, slots=True)
class _MscnnCandidates:
    """Boxes (N, n) of N images, their scores, and whether they are large enough to be candidates."""

    boxes: Boxes
    score: Value
    is_large: Value


@layer_rule("BoxOutput")
def box_output(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """The proposals of MS-CNN: boxes of several maps, clipped, the best ones suppressed in each image.

    Becomes: TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: maps (N, C + 4, H, W) of C scores, the background's first, and of x, y, w and h.
    Tops: (R, 5, 1, 1) image, x1, y1, x2, y2 by image and falling score, and perhaps (R, 6, 1, 1) with the
    score. R is as many as there may be; behind the last one stand rows of -1.
    Source: zhaoweicai/mscnn ``src/caffe/layers/box_output_layer.cpp``, ``src/caffe/util/math_functions.cpp``.
    """
    param, maps = layer.param, [x, *others]
    for field in ("field_w", "field_h", "downsample_rate"):
        if len(getattr(param, field)) != len(maps):
            raise NetError(
                f"{field} is stated {len(getattr(param, field))} times, expected once for each of"
                f" {plural(len(maps), 'bottom')}",
                fix=f"state {field} for each map that the net was trained with",
            )
    parts = [_of_map(build, layer, index, bottom) for index, bottom in enumerate(maps)]
    boxes, score = _in_one_list(parts)
    is_large = (boxes.third >= param.min_size) & (boxes.fourth >= param.min_size)
    rule = Suppression(
        overlap_threshold(param.iou_thr, "iou_thr"),
        of_corner_and_sides(param.nms_type),
        first_of_equals=False,
    )
    return _propose(build, layer, _MscnnCandidates(boxes, score, is_large), rule, _corners_of_sides)


@layer_rule("BoxGroupOutput")
def box_group_output(
    build: LayerBuilder, layer: Layer, score: Value, code: Value, *others: Value
) -> list[Value]:
    """The proposals of Cascade R-CNN: boxes of several maps and anchors, clipped, the best ones suppressed.

    Becomes: TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: pairs of maps (N G, C, H, W) of probabilities, the background's first, and of codes
    (N G, 4, H, W), for G anchors a place. Tops: as of BoxOutput.
    Source: zhaoweicai/cascade-rcnn ``src/caffe/layers/box_group_output_layer.cpp``,
    ``src/caffe/util/bbox_util.cpp``.
    """
    param, bottoms = layer.param, [score, code, *others]
    if len(bottoms) != 2 * len(param.box_group_param):
        raise NetError(
            f"has {plural(len(bottoms), 'bottom')}, but states box_group_param {len(param.box_group_param)} times",
            fix="state box_group_param for each pair of scores and codes",
        )
    pairs = zip(bottoms[::2], bottoms[1::2], param.box_group_param, strict=True)
    parts = [_of_group(build, layer, 2 * index, *pair) for index, pair in enumerate(pairs)]
    boxes, scores = _in_one_list(parts)
    is_large = (boxes.third - boxes.first + 1 >= param.min_size) & (
        boxes.fourth - boxes.second + 1 >= param.min_size
    )
    overlap = of_pixel_corners_in(param.nms_type)
    rule = Suppression(overlap_threshold(param.iou_thr, "iou_thr"), overlap)
    return _propose(build, layer, _MscnnCandidates(boxes, scores, is_large), rule, lambda box: box)


def _in_one_list(parts: Sequence[tuple[Boxes, Value]]) -> tuple[Boxes, Value]:
    """The boxes and the scores of all maps, one map after the other."""
    columns = zip(*(boxes.parts for boxes, _ in parts), strict=True)
    boxes = Boxes(*(concatenate(list(same), 1) for same in columns))
    return boxes, concatenate([score for _, score in parts], 1)


def _corners_of_sides(box: Boxes) -> Boxes:
    return Boxes(box.first, box.second, box.first + box.third, box.second + box.fourth)


def _propose(
    build: LayerBuilder,
    layer: Layer,
    candidates: _MscnnCandidates,
    rule: Suppression,
    corners_of: Callable[[Boxes], Boxes],
) -> list[Value]:
    """The tops: what is left of the boxes (N, n) of each image, as corners."""
    is_candidate = (candidates.score >= layer.param.fg_thr) & candidates.is_large
    largest = range_of(computable(candidates.score.shape[1])).max
    before = min(layer.param.max_nms_num or largest, largest)
    most = min(layer.param.max_post_nms_num or before, before)
    kept = suppressed(candidates.score, is_candidate, candidates.boxes, rule, before=before, most=most)
    corners = corners_of(candidates.boxes.map(lambda part: picked(part, kept.index)))
    rows, table = rows_of_images(kept, corners, most)
    return _tops(build, layer, rows, rows.filled(table))


def _of_map(build: LayerBuilder, layer: Layer, index: int, x: Value) -> tuple[Boxes, Value]:
    """Upper left corners and sides (N, H W) in pixels, and scores: the best class's above the background's."""
    param = layer.param
    if len(x.shape) != 4 or fixed(x.shape[1], "the number of channels") < _COORDINATES + 2:
        because = "a place has scores, the background's first, and four coordinates"
        fix = "give it the maps that the net was trained with"
        raise misfit(layer, index, x, "(N, C + 4, H, W), with C at least 2", fix, because)
    images, _, height, width = (computable(dim, "a map") for dim in x.shape)
    channels = fixed(x.shape[1], "the number of channels")
    classes, stride = channels - _COORDINATES, param.downsample_rate[index]
    rows = exact(x).reshape(images, channels, height * width)
    best = rows.slice(1, 1, classes - 1).largest(1)
    score = (best - rows.slice(1, 0)).reshape(images, height * width)
    moves = [rows.slice(1, classes + place).reshape(images, height * width) for place in range(_COORDINATES)]
    corners, sides = _decode(
        layer, moves, (height, width), (param.field_w[index], param.field_h[index]), stride
    )
    starts = [corner.at_least(0) for corner in corners]
    ends = [as_number(build, size * stride, 2) for size in (width, height)]
    cut = [side.at_most(end - start) for side, end, start in zip(sides, ends, starts, strict=True)]
    return Boxes(*starts, *cut), score


def _of_group(
    build: LayerBuilder, layer: Layer, index: int, score: Value, code: Value, group: Any
) -> tuple[Boxes, Value]:
    """Clipped corners (N, G H W) in pixels, and how certain it is that there is an object."""
    anchors, images = _images_of_group(layer, index, score, code, group)
    maps, classes, height, width = (computable(dim, "a map") for dim in score.shape)
    places = height * width
    moves = [
        part.reshape(images, anchors, places)
        for part in exact(code).reshape(maps, _COORDINATES, places).split(1)
    ]
    fields = [
        build.constant(np.array([[*sizes]], np.float32)[..., None], "anchors")
        for sizes in (group.field_w, group.field_h)
    ]
    corners, sides = _decode(layer, moves, (height, width), (fields[0], fields[1]), group.stride)
    ends = (width * group.stride, height * group.stride)
    last = [(corner + side - 1).at_most(end) for corner, side, end in zip(corners, sides, ends, strict=True)]
    boxes = Boxes(*(corner.at_least(0) for corner in corners), *last)
    background = exact(score).reshape(maps, classes, places).slice(1, 0)
    count = anchors * places
    return boxes.map(lambda part: part.reshape(images, count)), (1 - background).reshape(images, count)


def _images_of_group(layer: Layer, index: int, score: Value, code: Value, group: Any) -> tuple[int, Size]:
    """The numbers of anchors and of images. Raises ``NetError`` and ``ShapeError`` where the bottoms do not fit."""
    anchors = len(group.field_w)
    if not anchors or len(group.field_h) != anchors:
        raise NetError(
            f"box_group_param states {anchors} widths and {len(group.field_h)} heights of anchors",
            fix="state field_w and field_h for each anchor",
        )
    images = divide(computable(score.shape[0]), anchors) if len(score.shape) == 4 else None
    if images is None:
        because = f"there are {anchors} anchors at each place"
        expected, fix = f"({anchors} N, C, H, W)", "put a Reshape in front of it"
        raise misfit(layer, index, score, expected, fix, because)
    maps, _, height, width = (computable(dim, "a map") for dim in score.shape)
    if code.shape != (maps, _COORDINATES, height, width):
        expected = str((maps, _COORDINATES, height, width))
        because = f'bottom "{layer.bottom_blob(index)}" has the shape {score.shape}'
        raise misfit(layer, index + 1, code, expected, "give it the codes of these scores", because)
    return anchors, images


def _decode(
    layer: Layer,
    codes: list[Value],
    plane: tuple[Size, Size],
    fields: tuple[Value, Value] | tuple[int, int],
    stride: int,
) -> tuple[list[Value], list[Value]]:
    """Upper left corners x and y, and sides w and h, in pixels; codes (..., H W) are limited as the fork does it."""
    param, build = layer.param, codes[0].build
    for field in ("field_xyr", "field_whr"):
        if getattr(param, field) <= 0:
            raise NetError(
                f"{field} is {getattr(param, field):g}, expected a positive number",
                fix=f"leave {field} out: its default is 2",
            )
    moves = _denormalize(layer, codes)
    reach, stretch = 1 / param.field_xyr, math.log(param.field_whr)
    corners, sides = [], []
    for axis, size in enumerate(plane[::-1]):
        middles = _middles(build, size, stride)
        everywhere = build.broadcast(build.aligned(middles, 2, 1 - axis), plane, "places")
        row = build.reshape(everywhere, (plane[0] * plane[1],))
        middle = build.aligned(row, len(codes[0].shape))
        centre = moves[axis].at_least(-reach).at_most(reach) * fields[axis] + middle
        side = moves[2 + axis].at_least(-stretch).at_most(stretch).exp() * fields[axis]
        corners.append(centre - side / 2)
        sides.append(side)
    return corners, sides


def _middles(build: Builder, size: Size, stride: int) -> Value:
    """The middles of the places along an axis, in pixels: (size,)."""
    if isinstance(size, int):
        return build.constant(((np.arange(size) + 0.5) * stride).astype(np.float32), "places")
    places = build.counted_numbers(size, "places", dtype=DType.FLOAT32)
    return (places + 0.5) * stride


@layer_rule("DecodeBBox")
def decode_bbox(build: LayerBuilder, layer: Layer, code: Value, region: Value) -> list[Value]:
    """Regions of interest moved by the codes of class 1, for the next stage of a cascade.

    Becomes: arithmetic, Concat.
    Bottoms: codes (R, 8) of two classes, regions (R, 5) image, x1, y1, x2, y2. Tops: (R, 5, 1, 1).
    Source: zhaoweicai/mscnn ``src/caffe/layers/decode_bbox_layer.cpp``, ``DecodeBBoxesWithPrior`` in
    ``src/caffe/util/math_functions.cpp``; zhaoweicai/cascade-rcnn, the layer of the same name.
    """
    _refuse_misfits(layer, code, region)
    rows = region.shape[0]
    codes = exact(code).reshape(rows, 8).slice(1, 4, 4).split(1)
    image, *corners = exact(region).reshape(rows, 5).split(1)
    moves = _denormalize(layer, codes)
    ends: list[tuple[Value, Value]] = []
    for axis in range(2):
        first, last = corners[axis], corners[axis + 2]
        side, centre = last - first + 1, (last + first) * 0.5
        new = side * moves[axis + 2].exp()
        start = moves[axis] * side + centre - (new - 1) / 2
        ends.append((start, start + new - 1))
    table = concatenate([image, ends[0][0], ends[1][0], ends[0][1], ends[1][1]], 1)
    return [table.reshape(rows, 5, 1, 1)]


def _refuse_misfits(layer: Layer, code: Value, region: Value) -> None:
    """Raise ``ShapeError`` unless there are eight codes for each region of five numbers."""
    for index, (bottom, numbers, what) in enumerate(
        ((code, 8, "four codes of the background and of the object"), (region, 5, "image and corners"))
    ):
        if len(bottom.shape) < 2 or element_count(bottom.shape[1:]) != numbers:
            because = f"a region has {numbers} numbers: {what}"
            fix = "give it the blob that the net was trained with"
            raise misfit(layer, index, bottom, f"(R, {numbers})", fix, because)
    if code.shape[0] != region.shape[0]:
        because = f'bottom "{layer.bottom_blob(1)}" has {region.shape[0]} regions'
        raise misfit(layer, 0, code, f"({region.shape[0]}, 8)", "give it the codes of these regions", because)


def _denormalize(layer: Layer, moves: list[Value]) -> list[Value]:
    """Moves times the standard deviations plus the means that they were normalized with, if any are stated."""
    param: Any = layer.message.bbox_reg_param
    means, deviations = [*param.bbox_mean], [*param.bbox_std]
    if not means or not deviations:
        return moves
    if len(means) != 4 or len(deviations) != 4:
        raise NetError(
            f"bbox_reg_param states {len(means)} means and {len(deviations)} standard deviations, expected 4 of each",
            fix="state bbox_mean and bbox_std for x, y, w and h",
        )
    return [
        move * float(deviation) + float(mean)
        for move, mean, deviation in zip(moves, means, deviations, strict=True)
    ]


def _tops(build: LayerBuilder, layer: Layer, rows: DetectionRows, table: Value) -> list[Value]:
    """The regions, and perhaps the regions with their scores; where there is none, the fork invents one."""
    size = fixed(table.shape[0], "the number of rows")
    is_any = rows.count > 0
    count = is_any.chosen(rows.count, 1)
    with_scores = _WITHOUT_BOX * 0
    tops = []
    for columns, alone in ((5, _WITHOUT_BOX[:, :5]), (6, with_scores)):
        nothing: Array = np.concatenate([alone, np.full((size - 1, columns), -1, np.float32)])
        invented = build.constant(nothing, "nothing")
        first_rows = is_any.reshape(1, 1).chosen(table.slice(1, 0, columns), invented)
        tops.append(first_rows.reshape(size, columns, 1, 1))
    return counted_tops(build, layer, count, tops[: len(layer.tops)])
