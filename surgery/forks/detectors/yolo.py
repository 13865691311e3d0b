"""From the maps of a YOLO to detections: one list for all classes, and for all images of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prototrt.surgery.rules import (
    CUT_BEFORE_LAYER,
    Array,
    Boxes,
    Builder,
    DType,
    Layer,
    LayerBuilder,
    NetError,
    OpenSize,
    Size,
    Suppression,
    UnsupportedLayerError,
    Value,
    beside,
    best_of_rows,
    chosen_rows,
    computable,
    concatenate,
    detections,
    exact,
    fixed,
    layer_rule,
    misfit,
    of_centres,
    ops,
    overlap_threshold,
    plural,
    range_of,
    suppressed,
)

MOST_DETECTIONS = 1000
"""Detections that a result has at most. The forks give all rows; a batch may have hundreds of thousands."""
_ROW = 5
"""Numbers of a box before its classes: x, y, width, height, objectness."""


@dataclass(frozen=True, slots=True)
class _YoloCandidates:
    """One column each: centre, sides, label and score of boxes, and whether they are candidates at all."""

    boxes: Boxes
    label: Value
    score: Value
    is_candidate: Value


@layer_rule("YoloDetectionOutput")
def yolo_detection_output(
    build: LayerBuilder, layer: Layer, x: Value, second: Value | None = None
) -> list[Value]:
    """The detections of YOLO v2: the best class of each box, suppressed across classes and images.

    Becomes: Softmax, TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: one or two maps (N, B (5 + C), S, S): x, y, w, h, objectness and C classes of B boxes a place.
    Tops: (1, 1, K, 7) image 0, class + 1, score, xmin, ymin, xmax, ymax, by falling score. K is as many as
    there may be, at most 1000, and behind the last one stand rows of -1.
    Source: eric612/MobileNet-YOLO ``src/caffe/layers/yolo_detection_output_layer.cpp``.
    """
    param = layer.param
    _refuse_too_few(layer, "biases", len(param.biases), 2 * param.num_box, "two for each box of a place")
    maps = [x] if second is None else [x, second]
    anchors = np.array(param.biases[: 2 * param.num_box], np.float32).reshape(-1, 2)
    parts = [_of_best_class(layer, index, each, anchors) for index, each in enumerate(maps)]
    return _detect(build, layer, parts, computable(x.shape[0], "the number of images"))


@layer_rule("Yolov3DetectionOutput")
def yolov3_detection_output(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """The detections of YOLO v3: each class of each box by itself, suppressed across classes and images.

    Becomes: Sigmoid, TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: one map a scale, (N, B (5 + C), H, W): x, y, w, h, objectness and C classes of B boxes a place.
    Tops: as of YoloDetectionOutput.
    Source: eric612/MobileNet-YOLO ``src/caffe/layers/yolov3_detection_output_layer.cpp``,
    ``src/caffe/util/bbox_util.cpp``.
    """
    param, maps = layer.param, [x, *others]
    if param.gaussian_box:
        raise UnsupportedLayerError(
            "gaussian_box is true",
            because="the fork reads memory that it never fills, so its results are undefined",
            fix=CUT_BEFORE_LAYER,
        )
    if len(maps) != param.mask_group_num:
        raise NetError(
            f"has {plural(len(maps), 'bottom')}, but mask_group_num is {param.mask_group_num}",
            fix="set mask_group_num to the number of bottoms",
        )
    _refuse_too_few(layer, "anchors_scale", len(param.anchors_scale), len(maps), "one for each bottom")
    each = len(param.mask) // len(maps)
    parts = []
    for index, bottom in enumerate(maps):
        mask = _mask(layer, index * each)
        pairs = np.array(param.biases, np.float32)[: len(param.biases) // 2 * 2].reshape(-1, 2)
        scale = param.anchors_scale[index]
        parts.append(_of_all_classes(build, layer, index, bottom, pairs[mask], scale))
    return _detect(build, layer, parts, computable(x.shape[0], "the number of images"))


@layer_rule("Region")
def region(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The numbers of YOLO v2's boxes: Sigmoid of x, y and objectness, and Softmax over classes. From darknet's forks.

    Becomes: Sigmoid, Softmax, Slice, Concat.
    Width and height stay as they are; ``anchors``, by which programs multiply their exponentials, change nothing.
    Bottoms: (N, num (coords + 1 + classes), H, W): x, y, w, h, objectness and classes of each box. Tops: one, of the
    same shape.
    Source: openvinotoolkit/training_toolbox_caffe 2137b635 ``src/caffe/layers/region_layer.cpp``.
    """
    param = layer.param
    for name in ("num", "classes"):
        if not getattr(param, name):
            raise NetError(f"{name} is missing", fix="state num and classes in region_param")
    if not param.softmax:
        raise UnsupportedLayerError("softmax is false, which is not supported", fix=CUT_BEFORE_LAYER)
    numbers = param.coords + 1 + param.classes
    if len(x.shape) != 4 or x.shape[1] != param.num * numbers:
        because = f"num is {param.num}, and a box has {param.coords + 1} numbers and {param.classes} classes"
        fix = "state num and classes as in the cfg of darknet"
        raise misfit(layer, 0, x, f"(N, {param.num * numbers}, H, W)", fix, because)
    build.warn("gives numbers of boxes, not boxes: they are as wide as an anchor times exp(w)")
    images, _, height, width = (computable(dim, "a map") for dim in x.shape)
    maps = x.reshape(images, param.num, numbers, height, width)
    parts = [
        maps.slice(2, 0, 2).sigmoid(),
        maps.slice(2, 2, param.coords - 2),
        maps.slice(2, param.coords).sigmoid(),
        maps.slice(2, param.coords + 1, param.classes).apply(ops.Softmax(2)),
    ]
    return [concatenate(parts, 2).reshape(*x.shape)]


def _mask(layer: Layer, first: int) -> list[int]:
    """Which pairs of ``biases`` the boxes of a scale have."""
    param = layer.param
    _refuse_too_few(
        layer, "mask", len(param.mask), first + param.num_box, "num_box for each bottom, one after the other"
    )
    mask = list(param.mask[first : first + param.num_box])
    _refuse_too_few(
        layer, "biases", len(param.biases), 2 * max(mask, default=0) + 2, "two for each number of mask"
    )
    return mask


def _refuse_too_few(layer: Layer, field: str, count: int, expected: int, each: str) -> None:
    if count < expected:
        raise NetError(
            f"{field} is stated {count} times, expected at least {expected}",
            because=f"there must be {each}",
            fix=f"state {field} as in the training net",
        )


def _of_best_class(layer: Layer, index: int, x: Value, anchors: Array) -> _YoloCandidates:
    """YOLO v2: the width of a map is used for both sides, and only the best class of a box counts."""
    maps = _numbers_of_boxes(layer, index, x)
    images, boxes, _, height, width = (computable(dim) for dim in maps.shape)
    if range_of(height - width).min < 0:
        varies = isinstance(height, OpenSize) or isinstance(width, OpenSize)
        because = "the fork takes the width for both sides, and reads past the end of a wider map"
        fix = "name the same size for the image's height and width" if varies else "use a square image"
        raise misfit(layer, index, x, "a square map", fix, because)
    square = maps.slice(3, 0, width)
    places = images * boxes * width * width
    classes = square.slice(2, _ROW, layer.param.num_classes).transpose(0, 1, 3, 4, 2)
    shares = classes.reshape(places, layer.param.num_classes).apply(ops.Softmax(1))
    best, label = best_of_rows(shares, 1, first_of_equals=True)
    located = _decode(square, anchors, (width, width))
    score = square.slice(2, 4).sigmoid().reshape(places, 1) * best
    return _YoloCandidates(
        located.map(lambda part: part.reshape(places, 1)),
        label.cast(DType.FLOAT32),
        score,
        score >= layer.param.confidence_threshold,
    )


def _of_all_classes(
    build: LayerBuilder, layer: Layer, index: int, x: Value, anchors: Array, scale: int
) -> _YoloCandidates:
    """YOLO v3: each class is a separate candidate; anchors are in pixels of the net's input."""
    maps = _numbers_of_boxes(layer, index, x)
    images, boxes, _, height, width = (computable(dim) for dim in maps.shape)
    classes = layer.param.num_classes
    net = (width * scale, height * scale)
    score = maps.slice(2, 4).sigmoid() * maps.slice(2, _ROW, classes).sigmoid()
    count = images * boxes * classes * height * width
    numbers = build.counted_numbers(classes, "label", dtype=DType.FLOAT32)
    label = build.broadcast(build.aligned(numbers, 5, 2), (images, boxes, classes, height, width), "label")
    every = build.constant(np.ones((1, 1, classes, 1, 1), np.float32), "every_class")
    score = score.reshape(count, 1)
    return _YoloCandidates(
        _decode(maps, anchors, net).map(lambda part: (part * every).reshape(count, 1)),
        label.reshape(count, 1),
        score,
        score > layer.param.confidence_threshold,
    )


def _numbers_of_boxes(layer: Layer, index: int, x: Value) -> Value:
    """A map as (N, B, 5 + C, H, W)."""
    param = layer.param
    if not param.num_classes:
        raise NetError("num_classes is missing", fix="state num_classes, not counting the background")
    channels = param.num_box * (_ROW + param.num_classes)
    if len(x.shape) != 4 or x.shape[1] != channels:
        because = f"num_box is {param.num_box}, and a box has 5 numbers and {param.num_classes} classes"
        fix = "state the num_box and the num_classes that the net was trained with"
        raise misfit(layer, index, x, f"(N, {channels}, H, W)", fix, because)
    images, _, height, width = (computable(dim, "a map") for dim in x.shape)
    return exact(x).reshape(images, param.num_box, _ROW + param.num_classes, height, width)


def _decode(maps: Value, anchors: Array, whole: tuple[Size, Size]) -> Boxes:
    """Centre and sides (N, B, 1, H, W) of the boxes, relative to the image.

    ``anchors`` (B, 2) are widths and heights; ``whole`` is what the image measures in their unit.
    """

    build = maps.build
    height, width = (computable(dim) for dim in maps.shape[3:])
    x, y, across, down = (maps.slice(2, place) for place in range(4))
    wide, high = (
        build.constant(anchors[:, side].reshape(1, -1, 1, 1, 1), hint)
        for side, hint in enumerate(("anchor_widths", "anchor_heights"))
    )
    return Boxes(
        (x.sigmoid() + _places(build, width, "columns", 4)) / width,
        (y.sigmoid() + _places(build, height, "rows", 3)) / height,
        across.exp() * wide / whole[0],
        down.exp() * high / whole[1],
    )


def _places(build: Builder, size: Size, hint: str, axis: int) -> Value:
    """0, 1, 2, ... along one of the five axes of a map."""
    return build.aligned(build.counted_numbers(size, hint, dtype=DType.FLOAT32), 5, axis)


def _detect(build: LayerBuilder, layer: Layer, parts: Sequence[_YoloCandidates], images: Size) -> list[Value]:
    """The top: the candidates of all bottoms in one list."""
    rule = Suppression(
        overlap_threshold(layer.param.nms_threshold, "nms_threshold"),
        of_centres,
        drops_equal=True,
        is_native=build.options.nms == "native",
    )
    label, score, is_candidate = (
        concatenate([getattr(part, name) for part in parts], 0) for name in ("label", "score", "is_candidate")
    )
    boxes = Boxes(*(concatenate(list(same), 0) for same in zip(*(p.boxes.parts for p in parts), strict=True)))
    count = computable(score.shape[0], "the number of boxes")
    largest = range_of(count).max
    if largest > MOST_DETECTIONS:
        build.warn(f"gives at most {MOST_DETECTIONS} detections, the best ones; the fork gives all")
    kept = suppressed(
        score.reshape(1, count),
        is_candidate.reshape(1, count),
        boxes.map(lambda part: part.reshape(1, count)),
        rule,
        before=largest,
        most=MOST_DETECTIONS,
    )
    x, y, width, height = boxes.parts
    corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    zero = build.constant(np.zeros(1, np.float32), "image")
    image = build.broadcast(zero, (count,), "image")
    places = fixed(kept.index.shape[1], "the number of boxes")
    table = beside([image, label + 1, score, *corners]).gathered(kept.index.reshape(places))
    rows = chosen_rows(kept.is_kept.reshape(places), MOST_DETECTIONS)
    return detections(build, layer, rows, table, images)
