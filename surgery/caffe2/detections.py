"""From the scores and moves of regions to detections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.caffe2.boxes import (
    apply_deltas,
    cut_to_image,
    last_pixel,
    overlap_of,
    refuse_other_boxes,
)
from prototrt.surgery.caffe2.operator_rule import expect_axes, misfit, operator_rule
from prototrt.surgery.detection.lists import KeptBoxes, picked
from prototrt.surgery.detection.overlaps import Boxes, Decay, Suppression, overlap_threshold
from prototrt.surgery.detection.rows import (
    beside,
    best_of_images,
    chosen_rows,
    counted_rows,
    counted_tops,
    is_counted,
)
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.ir import DType, computable, fixed


@operator_rule("BBoxTransform")
def bbox_transform(build: Builder, operator: Operator, rois: Value, moves: Value, info: Value) -> list[Value]:
    """The boxes of each class: regions are moved, and cut to their image, at its size before it was scaled.

    Becomes: Gather, Select and arithmetic.
    Inputs: regions (R, 4) or (R, 5), with the number of the image first; moves (R, 4 K), which are divided by
    ``weights``; im_info (N, 3): height, width and scale. Outputs: boxes (R, 4 K), in pixels of the scaled image
    unless ``apply_scale`` is 0, and the number of regions of each image (N,).
    Source: caffe2 ``operators/bbox_transform_op.cc``, ``RunOnDevice``.
    """
    refuse_other_boxes(operator)
    _refuse_misfits(operator, rois, moves, info)
    count, classes = rois.shape[0], fixed(moves.shape[1], "the moves") // 4
    weights = operator.arguments.numbers("weights") or (1.0,) * 4
    if len(weights) != 4 or not all(weights):
        raise NetError(f"weights are {list(weights)}, expected 4 numbers other than 0", fix=MEND_ARGUMENTS)
    *image, left, top, right, bottom = exact(rois).split(1)
    height, width, scale = _facts(exact(info), image)
    codes = exact(moves).reshape(count, classes, 4).split(2)
    steps = [code.reshape(count, classes) / weight for code, weight in zip(codes, weights, strict=True)]
    pixel = last_pixel(operator)
    boxes = apply_deltas(Boxes(*(part / scale for part in (left, top, right, bottom))), steps, pixel)
    rows, columns = ((size / scale + 0.5).floor() for size in (height, width))
    boxes = cut_to_image(boxes, rows, columns, pixel)
    if operator.arguments.flag("apply_scale", True):
        boxes = boxes.map(lambda part: part * scale)
    corners = concatenate([part.reshape(count, classes, 1) for part in boxes.parts], 2)
    result = counted_rows(build, corners.reshape(count, classes * 4), rois)
    return [result, _rows_of_images(build, rois, image, info)][: len(operator.tops)]


def _facts(info: Value, image: Sequence[Value]) -> list[Value]:
    """Height, width and scale of the image of each region (R, 1), or of the only image (1, 1)."""
    images = info.shape[0]
    if images == 1 or not image:
        return info.split(1)
    number = image[0].at_least(0).cast(DType.INT32).reshape(image[0].shape[0])
    return info.gathered(number).split(1)


def _rows_of_images(build: Builder, rois: Value, image: Sequence[Value], info: Value) -> Value:
    """How many regions each image has, as floats (N,). Those after the last one belong to image -1."""
    images = fixed(info.shape[0], "the number of images")
    mask = is_counted(build, rois)
    ones = build.broadcast(build.scalar(1.0, 2), (computable(rois.shape[0], "the regions"), 1))
    if image:
        numbers = build.constant(np.arange(images, dtype=np.float32)[None], "images")
        ones = image[0].equals(numbers).cast(DType.FLOAT32)
    if mask is not None:
        ones = mask.reshape(mask.shape[0], 1).chosen(ones, 0)
    return ones.sum(0).reshape(images)


def _refuse_misfits(operator: Operator, rois: Value, moves: Value, info: Value) -> None:
    """Raise ``ShapeError`` unless the inputs are of as many regions, and of the images that these may have."""
    expect_axes(operator, rois, 2, "(R, 4) or (R, 5)")
    expect_axes(operator, moves, 2, "(R, 4 K)", 1)
    columns = rois.shape[1]
    if columns not in (4, 5):
        because = "a region is x1, y1, x2 and y2, after the number of its image"
        raise misfit(operator, 0, rois, "(R, 4) or (R, 5)", because)
    because = f"the regions are {rois.shape}"
    if moves.shape[0] != rois.shape[0] or fixed(moves.shape[1], "the moves") % 4:
        raise misfit(operator, 1, moves, f"({rois.shape[0]}, 4 K)", because)
    if len(info.shape) != 2 or info.shape[1] != 3 or (columns == 4 and info.shape[0] != 1):
        expected = "(1, 3)" if columns == 4 else "(N, 3)"
        raise misfit(operator, 2, info, expected, because)


@dataclass(frozen=True, slots=True)
class _ListsOfClasses:
    """One list for each class of each image (N L, R): scores, boxes, and which of them are candidates."""

    images: int
    labels: int
    scores: Value
    boxes: Boxes
    is_candidate: Value
    first_row: Value
    """The first row of each image, int32 (N, 1)."""


@operator_rule("BoxWithNMSLimit")
def box_with_nms_limit(
    build: Builder, operator: Operator, scores: Value, boxes: Value, splits: Value | None = None
) -> list[Value]:
    """The detections of each image: suppressed class by class, the best ``detections_per_im`` of them kept.

    Becomes: TopK, a While with Gather, Select and arithmetic; the number of detections is one more output.
    Inputs: scores (R, C), boxes (R, 4 C), and how many rows each image has (N,). Outputs: scores (K,), boxes (K, 4),
    classes (K,), by image, class and falling score; how many detections each image has (N,), in which of its rows
    they were (K,), and how many of each class there are (N, C). After the last detection stand rows of -1.
    ``soft_nms_enabled`` lowers scores instead, by ``soft_nms_method`` linear or gaussian.
    Source: caffe2 ``operators/box_with_nms_limit_op.cc``, ``DoRunWithType``.
    """
    refuse_other_boxes(operator)
    lists = _lists(build, operator, scores, boxes, splits)
    rows = fixed(lists.scores.shape[1], "the number of boxes")
    most = operator.arguments.integer("detections_per_im", 100)
    kept = suppressed(
        lists.scores,
        lists.is_candidate,
        lists.boxes,
        _suppression(operator),
        before=rows,
        most=most if most > 0 else rows,
    )
    return _outputs(build, operator, lists, kept, most)


def _suppression(operator: Operator) -> Suppression:
    arguments = operator.arguments
    threshold = overlap_threshold(arguments.number("nms", 0.3), "nms")
    decay = _decay(operator) if arguments.flag("soft_nms_enabled") else None
    return Suppression(threshold, overlap_of(operator), decay=decay)


def _decay(operator: Operator) -> Decay:
    arguments = operator.arguments
    least, method = (
        arguments.number("soft_nms_min_score_thres", 0.001),
        arguments.text("soft_nms_method", "linear"),
    )
    if method == "linear":
        return Decay(least)
    if method != "gaussian":
        raise NetError(f'soft_nms_method is "{method}", expected linear or gaussian', fix=MEND_ARGUMENTS)
    sigma = arguments.number("soft_nms_sigma", 0.5)
    if not sigma > 0:
        raise NetError(f"soft_nms_sigma is {sigma:g}, expected more than 0", fix=MEND_ARGUMENTS)
    return Decay(least, sigma)


def _lists(
    build: Builder, operator: Operator, scores: Value, boxes: Value, splits: Value | None
) -> _ListsOfClasses:
    """The scores and boxes of the classes that are not the background."""
    rows, classes, of_boxes = _sizes(operator, scores, boxes)
    labels, arguments = classes - 1, operator.arguments
    has_background = arguments.flag("input_boxes_include_bg_cls", True)
    start = int(has_background)
    table = exact(scores).reshape(rows, classes).slice(1, start, labels).transpose(1, 0)
    corners = exact(boxes).reshape(rows, of_boxes, 4)
    is_shared = arguments.flag("cls_agnostic_bbox_reg")
    parts = [
        part.reshape(rows, of_boxes)
        .slice(1, 0 if is_shared else start, 1 if is_shared else labels)
        .transpose(1, 0)
        for part in corners.split(2)
    ]
    is_row, first_row = _rows_of_each_image(build, operator, scores, boxes, splits)
    images = fixed(is_row.shape[0], "the number of images")

    def as_lists(x: Value) -> Value:
        """(L, R) or (1, R) as the lists of all images."""
        whole = build.broadcast(build.reshape(x, (1, *x.shape)), (images, labels, rows), "lists")
        return whole.reshape(images * labels, rows)

    mask = build.broadcast(is_row.reshape(images, 1, rows), (images, labels, rows))
    enough = as_lists(table) > arguments.number("score_thresh", 0.05)
    is_candidate = enough & mask.reshape(images * labels, rows)
    return _ListsOfClasses(
        images, labels, as_lists(table), Boxes(*map(as_lists, parts)), is_candidate, first_row
    )


def _sizes(operator: Operator, scores: Value, boxes: Value) -> tuple[int, int, int]:
    """R, C, and for how many classes there are boxes. Raises ``ShapeError`` for inputs that do not fit."""
    for index, value, expected in ((0, scores, "(R, C)"), (1, boxes, "(R, 4 C)")):
        if len(value.shape) not in (2, 4) or any(dim != 1 for dim in value.shape[2:]):
            raise misfit(operator, index, value, expected, "a row is a region")
    rows, classes = (
        fixed(dim, what) for dim, what in zip(scores.shape, ("the rows", "the classes"), strict=False)
    )
    if classes < 2:
        because = "one of the classes is the background"
        raise misfit(operator, 0, scores, "(R, C) with 2 classes or more", because)
    of_boxes = classes if operator.arguments.flag("input_boxes_include_bg_cls", True) else classes - 1
    if operator.arguments.flag("cls_agnostic_bbox_reg"):
        of_boxes = 1
    if boxes.shape[:2] != (rows, 4 * of_boxes):
        because = f"the scores are {scores.shape}"
        raise misfit(operator, 1, boxes, f"({rows}, {4 * of_boxes})", because)
    return rows, classes, of_boxes


def _rows_of_each_image(
    build: Builder, operator: Operator, scores: Value, boxes: Value, splits: Value | None
) -> tuple[Value, Value]:
    """Which rows belong to each image (N, R), and its first row (N, 1)."""
    rows = fixed(scores.shape[0], "the rows")
    zero = build.constant(np.zeros((1, 1), np.int32), "first_row")
    masks = [mask for mask in (is_counted(build, scores), is_counted(build, boxes)) if mask is not None]
    if splits is None:
        if not masks:
            return build.constant(np.ones((1, rows), np.bool_), "is_row"), zero
        return masks[0].reshape(1, rows), zero
    expect_axes(operator, splits, 1, "(N,)", 2)
    images = fixed(splits.shape[0], "the number of images")
    each = splits.cast(DType.FLOAT32).reshape(1, images)
    before = build.constant(np.tri(images, k=-1, dtype=np.float32), "images_before")
    first = (each * before).sum(1)
    row = build.constant(np.arange(rows, dtype=np.float32)[None], "rows")
    is_row = (row >= first) & (row < first + each.reshape(images, 1))
    if masks:
        is_row = is_row & masks[0].reshape(1, rows)
    return is_row, first.cast(DType.INT32)


def _outputs(
    build: Builder, operator: Operator, lists: _ListsOfClasses, kept: KeptBoxes, most: int
) -> list[Value]:
    """The rows of the outputs: by image, then by class, then by falling score."""
    images, labels, each = lists.images, lists.labels, fixed(kept.score.shape[1], "the number of boxes")
    of_image = labels * each
    limit = min(most, of_image) if most > 0 else of_image
    is_kept = best_of_images(kept, images, of_image, limit) if limit < of_image else kept.is_kept
    first = 1 if operator.arguments.flag("output_classes_include_bg_cls", True) else 0
    label = build.constant(np.arange(first, labels + first, dtype=np.float32).reshape(1, -1, 1), "label")
    shape = (images, labels, each)
    place = kept.index.reshape(images, of_image) - lists.first_row
    columns = [
        kept.score,
        *lists.boxes.map(lambda part: picked(part, kept.index)).parts,
        build.broadcast(label, shape, "label"),
        place.cast(DType.FLOAT32),
    ]
    rows = chosen_rows(is_kept.reshape(images * of_image), images * limit)
    room = fixed(rows.places.shape[0], "the number of rows")
    table = rows.filled(beside(columns))
    scores, classes, places = (table.slice(1, column).reshape(room) for column in (0, 5, 6))
    columns = [scores, table.slice(1, 1, 4), classes]
    numbers = is_kept.cast(DType.FLOAT32).reshape(images, labels, each).sum(2)
    tops = counted_tops(build, operator, rows.count, columns)
    if len(operator.tops) > 3:
        tops.append(numbers.sum(1).reshape(images))
    if len(operator.tops) > 4:
        tops.append(counted_rows(build, places.cast(DType.INT32), tops[0]))
    if len(operator.tops) > 5:
        none = build.constant(np.zeros((images, 1), np.int32), "background")
        of_labels = numbers.reshape(images, labels).cast(DType.INT32)
        tops.append(concatenate([none, of_labels], 1))
    return tops
