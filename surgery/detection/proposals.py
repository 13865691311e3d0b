"""Regions of interest from the scores and moves of anchors, as Faster R-CNN and its relatives propose them."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.building.layer_builder import LayerBuilder, misfit
from prototrt.surgery.detection.lists import LOWEST, KeptBoxes, best_of_rows, picked
from prototrt.surgery.detection.overlaps import Boxes, Suppression
from prototrt.surgery.detection.rows import counted_tops, rows_of_images
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.ir import Array, DType, Size, computable, fixed, range_of

_EVERY = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, slots=True)
class Proposing:
    """What a fork does with its anchors.

    ``anchors`` (A, 4) are around the first place of the map; ``stride`` pixels are between two places.
    Boxes with a side below ``min_size`` (in pixels of the image before it was scaled) are not candidates,
    or, with ``keeps_small``, candidates of score 0. ``scale_places`` say where im_info holds the scales of
    heights and widths. ``measures_unclipped``: sides are those of a box before it is cut to the image, which then ends
    a pixel later. The ``before`` best enter the suppression, if any (all, if it is not positive), the first
    ``most`` of an image are proposed. Anchors but the first of a place need a score of ``least_score``.
    """

    anchors: Array
    stride: float
    min_size: float
    before: int
    most: int
    suppression: Suppression | None = None
    scale_places: tuple[int, int] = (2, 2)
    keeps_small: bool = False
    measures_unclipped: bool = False
    least_score: float = LOWEST


@dataclass(frozen=True, slots=True)
class Proposals:
    """Regions (R, 5): image, x1, y1, x2, y2; their scores (R, 1); how many of them count."""

    regions: Value
    scores: Value
    count: Value

    def tops(self, build: LayerBuilder, layer: Layer, regions: Value, scores: Value) -> list[Value]:
        """The tops of the layer: the regions and, if it has a second top, the scores."""
        return counted_tops(build, layer, self.count, [regions, scores][: len(layer.tops)])


@dataclass(frozen=True, slots=True)
class _ProposalCandidates:
    """All boxes of each image (N, H W A), their scores, and which of them count."""

    scores: Value
    is_candidate: Value
    boxes: Boxes


def proposed(
    build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value, how: Proposing
) -> Proposals:
    """Propose: bottoms are scores (N, 2 A, H, W), moves (N, 4 A, H, W) and im_info, height, width and scales."""
    assert how.suppression is not None
    candidates = _candidates(build, layer, score, move, info, how)
    largest = range_of(computable(candidates.scores.shape[1], "the number of boxes")).max
    before = min(how.before, largest) if how.before > 0 else largest
    most = min(how.most, before) if how.most > 0 else before
    kept = suppressed(
        candidates.scores,
        candidates.is_candidate,
        candidates.boxes,
        how.suppression,
        before=before,
        most=most,
    )
    return best_of_lists(kept, candidates.boxes, most)


def best_of_lists(kept: KeptBoxes, boxes: Boxes, most: int) -> Proposals:
    """The boxes (N, n) that are kept in the list of each image, at most ``most`` an image."""
    rows, table = rows_of_images(kept, boxes.map(lambda part: picked(part, kept.index)), most)
    filled = rows.filled(table)
    return Proposals(filled.slice(1, 0, 5), filled.slice(1, 5), rows.count)


def best_boxes(
    build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value, how: Proposing
) -> tuple[Value, Value]:
    """The ``before`` best boxes of one image, (R, 5), without suppression, and their scores (R, 1).

    All boxes are candidates, so that each image has as many.
    """
    candidates = _candidates(build, layer, score, move, info, how)
    count = fixed(candidates.scores.shape[1], "the number of boxes")
    best, places = best_of_rows(candidates.scores, min(how.before, count) if how.before > 0 else count, True)
    parts = candidates.boxes.map(lambda part: picked(part, places)).parts
    *corners, scores = (part.reshape(part.shape[1], 1) for part in (*parts, best))
    image = build.constant(
        np.broadcast_to(np.float32(0), (fixed(best.shape[1], "the number of boxes"), 1)), "image"
    )
    return concatenate([image, *corners], 1), scores


def _candidates(
    build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value, how: Proposing
) -> _ProposalCandidates:
    images, height, width = _refuse_misfits(layer, score, move, info, how)
    number = len(how.anchors)
    count = height * width * number
    foreground = exact(score).slice(1, number, number)
    scores = foreground.transpose(0, 2, 3, 1).reshape(images, count)
    codes = exact(move).reshape(images, number, 4, height, width).transpose(2, 0, 3, 4, 1)
    moves = [part.reshape(images, count) for part in codes.split(0)]
    facts = exact(info).reshape(1, fixed(numbers_of(info), "the size of im_info"))
    image_height, image_width = facts.slice(1, 0), facts.slice(1, 1)
    (middle_x, reach_x), (middle_y, reach_y) = _move_anchors(build, how, height, width, moves)
    boxes = Boxes(middle_x - reach_x, middle_y - reach_y, middle_x + reach_x, middle_y + reach_y)
    least_height, least_width = (facts.slice(1, place) * how.min_size for place in how.scale_places)
    if how.measures_unclipped:
        boxes = _clip(boxes, image_width, image_height)
        is_large = (reach_x * 2 >= least_width) & (reach_y * 2 >= least_height)
    else:
        boxes = _clip(boxes, image_width - 1, image_height - 1)
        is_large = (boxes.third - boxes.first + 1 >= least_width) & (
            boxes.fourth - boxes.second + 1 >= least_height
        )
    if how.keeps_small:
        scores = is_large.chosen(scores, 0)
        is_candidate = scores > LOWEST
    else:
        is_candidate = is_large & _scores_enough(build, scores, how, count)
    return _ProposalCandidates(scores, is_candidate, boxes)


def _refuse_misfits(
    layer: Layer, score: Value, move: Value, info: Value, how: Proposing
) -> tuple[Size, Size, Size]:
    number = len(how.anchors)
    anchors_note = f"there are {number} anchors at each place"
    fix = "state the ratios and scales that the net was trained with"
    if len(score.shape) != 4 or score.shape[1] != 2 * number:
        expected = f"(N, {2 * number}, H, W)"
        because = f"{anchors_note}, with a score for background and one for object"
        raise misfit(layer, 0, score, expected, fix, because)
    images, _, height, width = (computable(dim, "the scores") for dim in score.shape)
    if move.shape != (images, 4 * number, height, width):
        expected = str((images, 4 * number, height, width))
        raise misfit(layer, 1, move, expected, fix, f"{anchors_note}, each with four numbers")
    needed = max(how.scale_places) + 1
    if numbers_of(info) < needed:
        because = f"it holds height, width and {'two scales' if needed == 4 else 'scale'} of the image"
        raise misfit(layer, 2, info, f"at least {needed} numbers", f"feed {needed} numbers", because)
    return images, height, width


def one_image(layer: Layer, score: Value) -> None:
    """Raise for a batch, which the fork refuses."""
    if score.shape[:1] != (1,):
        fix = "give the net one image per call"
        raise misfit(layer, 0, score, "a batch of 1", fix, "the fork takes a single image")


def numbers_of(info: Value) -> int:
    """How many numbers im_info holds."""
    count = 1
    for dim in info.shape:
        count *= fixed(dim, "the size of im_info")
    return count


def _move_anchors(
    build: LayerBuilder, how: Proposing, height: Size, width: Size, moves: list[Value]
) -> list[tuple[Value, Value]]:
    """Anchors at every place, moved and stretched: middles and half sides along x, and along y, in pixels."""
    return [
        (moves[axis] * side + centre, moves[2 + axis].exp() * side * 0.5)
        for axis, (side, centre) in enumerate(_anchors(build, how, height, width))
    ]


def _anchors(build: LayerBuilder, how: Proposing, height: Size, width: Size) -> list[tuple[Value, Value]]:
    """Sides and centres along x, and along y, of the anchors of every place: (1, H W A) each, in pixels."""
    boxes = []
    anchors, number = how.anchors.astype(np.float32), len(how.anchors)
    for axis, (places, shape) in enumerate(((width, (1, width, number)), (height, (height, 1, number)))):
        sides_and_centres = _anchors_along(build, places, how.stride, anchors[:, axis], anchors[:, 2 + axis])
        side, centre = (
            build.broadcast(build.reshape(part, shape), (height, width, number), hint)
            for part, hint in zip(sides_and_centres, ("side", "centre"), strict=True)
        )
        count = height * width * number
        boxes.append((side.reshape(1, count), centre.reshape(1, count)))
    return boxes


def _anchors_along(
    build: LayerBuilder, places: Size, stride: float, low: Array, high: Array
) -> tuple[Value, Value]:
    """Side and centre (places, A) of anchors that begin and end here at the first place of an axis."""
    if isinstance(places, int):
        shifts = (np.arange(places)[:, None] * stride).astype(np.float32)
        first, last = low + shifts, high + shifts
        side = last - first + np.float32(1)
        return build.constant(side, "side"), build.constant(first + np.float32(0.5) * side, "centre")
    counted = build.aligned(build.counted_numbers(places, "places", dtype=DType.FLOAT32), 2, 0)
    shift = counted * stride
    begin, end = (shift + build.constant(part[None], "anchors") for part in (low, high))
    length = end - begin + 1
    return length, (begin + length * 0.5)


def _clip(boxes: Boxes, right: Value, bottom: Value) -> Boxes:
    last = (right, bottom, right, bottom)
    return Boxes(*(part.at_most(end).at_least(0) for part, end in zip(boxes.parts, last, strict=True)))


def _scores_enough(build: LayerBuilder, scores: Value, how: Proposing, count: Size) -> Value:
    if how.least_score == LOWEST:
        return scores > LOWEST
    number = len(how.anchors)
    of_place = build.constant(np.arange(number)[None] == 0, "is_first")
    is_first = build.broadcast(of_place, (count // number, number), "is_first")
    return (scores >= how.least_score) | is_first.reshape(1, count)
