"""What Detectron's operators share: boxes that are moved and cut to the image, and how they overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.detection.overlaps import Boxes, Overlap, of_corners, of_pixel_corners

MOST_STRETCH = math.log(1000 / 16)
"""The largest logarithm of a stretch: what a net predicts may be larger."""


def last_pixel(operator: Operator) -> int:
    """1 where a box from 0 to 0 is one pixel wide, as in Detectron, and 0 without ``legacy_plus_one``."""
    return int(operator.arguments.flag("legacy_plus_one", True))


def overlap_of(operator: Operator) -> Overlap:
    return of_pixel_corners if last_pixel(operator) else of_corners


def refuse_other_boxes(operator: Operator, *, are_rotated: bool = False) -> None:
    """Raise for boxes that are rotated, and for corners as Caffe2 computed them before PyTorch 1.0."""
    if are_rotated or operator.arguments.flag("rotated"):
        raise UnsupportedLayerError("boxes with an angle are not supported", fix=CUT_BEFORE)
    if not operator.arguments.flag("correct_transform_coords", True):
        raise UnsupportedLayerError(
            "correct_transform_coords is 0",
            because="it moves the last corner in Caffe2 alone; Caffe2 in PyTorch ignores it",
            fix="set it to 1, as Detectron's exporter does, if the net ran in PyTorch",
        )


def apply_deltas(boxes: Boxes, moves: Sequence[Value], pixel: int) -> Boxes:
    """Boxes with their middles moved by dx and dy, in sides, and their sides stretched by exp(dw) and exp(dh).

    Source: caffe2 ``operators/generate_proposals_op_util_boxes.h``, ``bbox_transform_upright``.
    """
    ends = []
    for low, high, move, stretch in (
        (boxes.first, boxes.third, moves[0], moves[2]),
        (boxes.second, boxes.fourth, moves[1], moves[3]),
    ):
        side = (high - low).shifted(pixel)
        middle = side * 0.5 + low + side * move
        reach = side * stretch.at_most(MOST_STRETCH).exp() * 0.5
        ends.append((middle - reach, (middle + reach).shifted(-pixel)))
    return Boxes(ends[0][0], ends[1][0], ends[0][1], ends[1][1])


def cut_to_image(boxes: Boxes, height: Value, width: Value, pixel: int) -> Boxes:
    """Source: caffe2 ``operators/generate_proposals_op_util_boxes.h``, ``clip_boxes_upright``."""
    right, bottom = width.shifted(-pixel), height.shifted(-pixel)
    last = (right, bottom, right, bottom)
    return Boxes(*(part.at_most(end).at_least(0) for part, end in zip(boxes.parts, last, strict=True)))


def positive_scale(operator: Operator, default: float) -> float:
    """``spatial_scale``: elements of the map for each pixel of the image. Raises ``NetError``."""
    scale = operator.arguments.number("spatial_scale", default)
    if not 0 < scale < math.inf:
        raise NetError(f"spatial_scale is {scale:g}, expected more than 0", fix=MEND_ARGUMENTS)
    return scale
