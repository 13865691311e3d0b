"""From scores and codes of boxes to detections, as SSD and RefineDet do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, misfit
from prototrt.surgery.detection.lists import LOWEST, KeptBoxes, picked
from prototrt.surgery.detection.overlaps import Boxes, Suppression, of_normalized_corners, overlap_threshold
from prototrt.surgery.detection.rows import beside, best_of_images, chosen_rows, detections
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.ir import DType, Size, computable, divide, fixed, open_count, range_of
from prototrt.surgery.ops import Tile
from prototrt.surgery.options import NmsForm

_ALL = int(np.iinfo(np.int32).max)
"""As many as there are."""


@dataclass(frozen=True, slots=True)
class _DetectionSizes:
    """N images, P priors, C classes, L classes of locations (1 if they are shared)."""

    images: Size
    priors: Size
    classes: int
    locations: int


@layer_rule("DetectionOutput")
def detection_output(
    build: LayerBuilder,
    layer: Layer,
    location: Value,
    confidence: Value,
    prior: Value,
    arm_confidence: Value | None = None,
    arm_location: Value | None = None,
    *others: Value,
) -> list[Value]:
    """The detections of SSD and RefineDet: boxes decoded, suppressed class by class, the best ones kept.

    Becomes: TopK, a While with MatMul, Gather, Select and arithmetic; its count is one more output.
    Bottoms: locations (N, 4 P L), confidences (N, P C), priors (1, 2, 4 P); of RefineDet also the
    confidences (N, 2 P) and the locations (N, 4 P) of the first stage.
    Tops: (1, 1, K, 7) image, class, score, xmin, ymin, xmax, ymax; by image, class and falling score. K
    is as many as there may be, and behind the last one stand rows of -1. With ``use_polygon``, of TextBoxes++, the
    locations have 12 numbers for each prior, and each row ends with four corners x, y from the upper left one on.
    ``soft_nms`` is refused unless it is false, and then ``theta`` is not read.
    With ``clip``, of OpenCV, boxes are cut at the border of the image before any is suppressed.
    Source: weiliu89/caffe ``src/caffe/layers/detection_output_layer.cpp``, ``src/caffe/util/bbox_util.cpp``;
    sfzhang15/RefineDet and MhLiao/TextBoxes_plusplus, the files of the same names; opencv
    ``modules/dnn/src/layers/detection_output_layer.cpp``.
    """
    param = layer.param
    if others:
        raise NetError(
            f"has {5 + len(others)} bottoms, expected 3 to 5",
            fix="join the locations, confidences and priors by Concat",
        )
    sizes = _sizes(layer, location, confidence, prior)
    _refuse_first_stage(layer, sizes, arm_confidence, arm_location)
    rule = _suppression(param, build.options.nms)
    priors, variances = _priors(exact(prior), param.variance_encoded_in_target)
    if arm_location is not None:
        codes = _codes(exact(arm_location), sizes.images, sizes.priors, 1, 4)
        priors = _decode(param, priors, variances, codes)
    codes = _codes(exact(location), sizes.images, sizes.priors, sizes.locations, _numbers_each(param))
    boxes = _decode(param, priors, variances, codes[:4])  # (N, L, P) each
    if param.clip:
        boxes = boxes.map(lambda part: part.at_least(0).at_most(1))
    corners = _corners(priors, variances, codes[4:]) if param.use_polygon else []
    scores = exact(confidence).reshape(sizes.images, sizes.priors, sizes.classes)
    if arm_confidence is not None:
        scores = _without_background(scores, exact(arm_confidence), param.objectness_score)

    labels = [label for label in range(sizes.classes) if label != param.background_label_id]
    lists = sizes.images * len(labels)
    scores = _of_labels(scores.transpose(0, 2, 1), labels).reshape(lists, sizes.priors)
    boxes = boxes.map(lambda part: _of_labels(part, labels).reshape(lists, sizes.priors))
    corners = [_of_labels(part, labels).reshape(lists, sizes.priors) for part in corners]
    before = _at_most(param.nms_param.top_k) if param.nms_param.HasField("top_k") else _ALL
    most = _at_most(param.keep_top_k)
    # Without room for a box, no score is high enough: the result is that nothing was found.
    least = _least_score(param) if before and most else -LOWEST
    kept = suppressed(scores, scores > least, boxes, rule, before=max(before, 1), most=max(most, 1))
    return _top(build, layer, kept, [*boxes.parts, *corners], labels, sizes.images)


def _numbers_each(param: Any) -> int:
    """How many numbers locate a box: those of four corners follow its own. Raises ``UnsupportedLayerError``."""
    if param.use_polygon and (
        param.variance_encoded_in_target or param.code_type != _priors_message().CENTER_SIZE
    ):
        raise UnsupportedLayerError(
            "use_polygon is true, but code_type is not CENTER_SIZE, or variance_encoded_in_target is true",
            because="the fork does not decode corners then",
            fix="state CENTER_SIZE, if the net was trained with it",
        )
    return 12 if param.use_polygon else 4


def _sizes(layer: Layer, location: Value, confidence: Value, prior: Value) -> _DetectionSizes:
    """The sizes that the bottoms have and the fields state; they must agree."""
    param = layer.param
    if not param.num_classes:
        raise NetError("num_classes is missing", fix="state num_classes, counting the background")
    priors = _prior_count(layer, prior)
    classes, locations = param.num_classes, 1 if param.share_location else param.num_classes
    images = computable(location.shape[0], "the number of images") if location.shape else 1
    sizes = _DetectionSizes(images, priors, classes, locations)
    of_priors, each = f"there are {sizes.priors} priors", _numbers_each(param)
    _refuse_misfit(
        layer,
        0,
        location,
        (images, each * locations * sizes.priors),
        f"{of_priors}, and {each} numbers for each"
        if param.share_location
        else f"{of_priors}, and {each} numbers for each and each of {classes} classes, as share_location is false",
    )
    because = f"{of_priors}, and num_classes is {classes}"
    _refuse_other_classes(layer, confidence, sizes, because)
    _refuse_misfit(layer, 1, confidence, (images, classes * sizes.priors), because)
    if classes == 1 and param.background_label_id == 0:
        raise NetError(
            "num_classes is 1, but class 0 is the background: no class is left to detect",
            fix="set num_classes to the number of classes, counting the background",
        )
    return sizes


def _prior_count(layer: Layer, prior: Value) -> Size:
    """P, the number of priors in a bottom (1, 2, 4 P). Raises ``ShapeError`` for another shape."""
    is_pair = prior.shape[:2] == (1, 2) and len(prior.shape) > 2 and all(dim == 1 for dim in prior.shape[3:])
    priors = divide(computable(prior.shape[2], "the priors"), 4) if is_pair else None
    if priors is None:
        because = "it holds the corners and the variances of P priors"
        fix = "give it the priors, from a PriorBox or several PriorBoxes and a Concat of axis 2"
        raise misfit(layer, 2, prior, "(1, 2, 4 P)", fix, because)
    return priors


def _refuse_first_stage(
    layer: Layer, sizes: _DetectionSizes, confidence: Value | None, location: Value | None
) -> None:
    """RefineDet's first stage tells objects from background, and moves the priors, for all classes alike."""
    because = f"there are {sizes.priors} priors, and {{}} numbers of the first stage for each"
    for index, bottom, numbers_each in ((3, confidence, 2), (4, location, 4)):
        if bottom is not None:
            shape = (sizes.images, numbers_each * sizes.priors)
            _refuse_misfit(layer, index, bottom, shape, because.format(numbers_each))
    if location is not None and sizes.locations > 1:
        raise NetError(
            "share_location is false, but the first stage moves the priors of all classes alike",
            fix=f'remove bottom "{layer.bottom_blob(4)}", or set share_location to true',
        )


def _refuse_misfit(layer: Layer, index: int, x: Value, expected: tuple[Size, Size], because: str) -> None:
    """Raise unless a bottom has this many numbers per image."""
    if (*x.shape[:1], open_count(x.shape[1:])) != expected:
        fix = Worded(
            "use the PriorBox layers and the num_classes that the net was trained with; for a net of TextBoxes or"
            " FaceBoxes, name the fork, whose PriorBox makes more boxes: {} or {}",
            Option("fork", "textboxes"),
            Option("fork", "faceboxes"),
        )
        raise misfit(layer, index, x, expected, fix, because)


def _refuse_other_classes(layer: Layer, confidence: Value, sizes: _DetectionSizes, because: str) -> None:
    """Raise if the confidences are those of another number of classes, where that is plain."""
    count, priors = open_count(confidence.shape[1:]), sizes.priors
    if not isinstance(count, int) or not isinstance(priors, int) or sizes.locations != 1 or priors < 1:
        return
    if count % priors == 0 and count // priors not in (0, 1, sizes.classes):
        setting = {f"{layer.name}.detection_output_param.num_classes": str(count // priors)}
        fix = Worded("state the number that the net was trained with: {}", Option("overrides", setting))
        expected = str((sizes.images, sizes.classes * priors))
        raise misfit(layer, 1, confidence, expected, fix, because)


def _suppression(param: Any, nms: NmsForm) -> Suppression:
    threshold = overlap_threshold(param.nms_param.nms_threshold, "nms_threshold")
    eta = param.nms_param.eta
    if not 0 < eta <= 1:
        raise NetError(
            f"eta is {eta:g}, expected a number above 0, and at most 1",
            because="the threshold is multiplied by it",
            fix="set eta to 1 to leave the threshold as it is",
        )
    if param.nms_param.soft_nms:
        raise UnsupportedLayerError(
            "soft_nms lowers the scores of boxes that overlap",
            because="only the suppression that drops them is supported",
            fix=CUT_BEFORE_LAYER,
        )
    # Native layers turn a box round that is inside out; decoded so, none is.
    is_native = nms == "native" and param.code_type == _priors_message().CENTER_SIZE
    return Suppression(threshold, of_normalized_corners, eta=eta, is_native=is_native)


def _priors_message() -> Any:
    """Where the fork has the names of codes."""
    return message_class("PriorBoxParameter")


def _least_score(param: Any) -> float:
    return float(param.confidence_threshold) if param.HasField("confidence_threshold") else LOWEST


def _at_most(limit: int) -> int:
    """A negative limit is none."""
    return limit if limit >= 0 else _ALL


def _priors(prior: Value, are_encoded: bool) -> tuple[Boxes, list[Value] | None]:
    """The corners of the priors (1, 1, P), and their variances, or None where the codes hold them."""
    count = computable(prior.shape[2], "the priors") // 4
    corners, variances = (
        [part.reshape(1, 1, count) for part in half.reshape(1, 1, count, 4).split(3)]
        for half in (prior.slice(1, 0), prior.slice(1, 1))
    )
    return Boxes(*corners), None if are_encoded else variances


def _codes(locations: Value, images: Size, priors: Size, classes: int, each: int) -> list[Value]:
    """The codes of each box, (N, L, P) each."""
    codes = locations.reshape(images, priors, classes, each)
    return [part.reshape(images, priors, classes).transpose(0, 2, 1) for part in codes.split(3)]


def _decode(param: Any, prior: Boxes, variances: list[Value] | None, codes: Sequence[Value]) -> Boxes:
    """Corners of boxes; ``CHECK``s of the fork that a prior has an extent are left out."""
    moves = [code if variances is None else variances[i] * code for i, code in enumerate(codes)]
    codes_of = _priors_message()
    if param.code_type == codes_of.CORNER:
        return Boxes(*(corner + move for corner, move in zip(prior.parts, moves, strict=True)))
    width, height = prior.third - prior.first, prior.fourth - prior.second
    if param.code_type == codes_of.CORNER_SIZE:
        sides = (width, height, width, height)
        parts = zip(prior.parts, moves, sides, strict=True)
        return Boxes(*(corner + move * side for corner, move, side in parts))
    x = moves[0] * width + (prior.first + prior.third) / 2
    y = moves[1] * height + (prior.second + prior.fourth) / 2
    half_width, half_height = moves[2].exp() * width / 2, moves[3].exp() * height / 2
    return Boxes(x - half_width, y - half_height, x + half_width, y + half_height)


def _corners(prior: Boxes, variances: list[Value] | None, codes: Sequence[Value]) -> list[Value]:
    """Four corners x, y: those of the prior, from the upper left one on, moved by shares of its sides."""
    assert variances is not None
    width, height = prior.third - prior.first, prior.fourth - prior.second
    across, down = (prior.first, prior.third, prior.third, prior.first), (prior.second, prior.fourth)
    corners: list[Value] = []
    for index, x in enumerate(across):
        corners.append(variances[0] * codes[2 * index] * width + x)
        corners.append(variances[1] * codes[2 * index + 1] * height + down[index // 2])
    return corners


def _without_background(scores: Value, arm: Value, objectness: float) -> Value:
    """Scores (N, P, C) in which a prior that the first stage takes for background is of class 0 for sure."""
    images, priors, classes = *scores.shape[:2], fixed(scores.shape[2], "the number of classes")
    is_background = arm.reshape(images, priors, 2).slice(2, 1) < objectness
    certain = np.zeros((1, 1, classes), np.float32)
    certain[..., 0] = 1
    return is_background.chosen(scores.build.constant(certain), scores)


def _of_labels(x: Value, labels: Sequence[int]) -> Value:
    """What (N, C, P) holds of these classes; what is shared by all, (N, 1, P), for each of them."""
    if x.shape[1] == 1 and len(labels) > 1:
        return x.build.add(Tile(1, len(labels)), x)
    if x.shape[1] in (1, len(labels)):
        return x
    missing = next(label for label in range(len(labels) + 1) if label not in labels)
    parts = [(0, missing), (missing + 1, len(labels) - missing)]
    return concatenate([x.slice(1, start, size) for start, size in parts if size], 1)


def _top(
    build: LayerBuilder,
    layer: Layer,
    kept: KeptBoxes,
    parts: Sequence[Value],
    labels: Sequence[int],
    images: Size,
) -> list[Value]:
    """The rows of the top: by image, then by class, then by falling score."""
    each = fixed(kept.score.shape[1], "the number of boxes")
    of_image = len(labels) * each
    shape = (images, len(labels), each)
    image = build.counted_numbers(images, "image", dtype=DType.FLOAT32)
    label = build.constant(np.array(labels, np.float32), "label")
    columns = [
        build.broadcast(build.aligned(image, 3, 0), shape, "image"),
        build.broadcast(build.aligned(label, 3, 1), shape, "label"),
        kept.score,
        *(picked(part, kept.index) for part in parts),
    ]
    most = min(_at_most(layer.param.keep_top_k), of_image)
    is_kept = best_of_images(kept, images, of_image, most) if 0 < most < of_image else kept.is_kept
    rows = chosen_rows(is_kept.reshape(images * of_image), max(range_of(images).max * most, 1))
    return detections(build, layer, rows, beside(columns), images)
