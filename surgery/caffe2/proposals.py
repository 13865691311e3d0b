"""Regions of interest from scores and moves of anchors, as Detectron proposes them."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.boxes import (
    apply_deltas,
    cut_to_image,
    last_pixel,
    overlap_of,
    positive_scale,
    refuse_other_boxes,
)
from prototrt.surgery.caffe2.operator_rule import expect_axes, misfit, operator_rule
from prototrt.surgery.detection.lists import LOWEST, best_of_rows, lengthened, picked
from prototrt.surgery.detection.overlaps import Boxes, Suppression, overlap_threshold
from prototrt.surgery.detection.proposals import best_of_lists
from prototrt.surgery.detection.rows import counted_tops
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.ir import DType, OpenSize, Size, computable, range_of


@operator_rule("GenerateProposals", "GenerateProposalsCPP")
def generate_proposals(
    build: Builder, operator: Operator, scores: Value, moves: Value, info: Value, anchors: Value
) -> list[Value]:
    """The regions of Faster R-CNN: anchors of the best scores are moved, cut to the image, and suppressed.

    Becomes: TopK, a While with Gather, Select and arithmetic; the number of regions is one more output.
    Inputs: scores (N, A, H, W), moves (N, 4 A, H, W), im_info (N, 3): height, width and scale; anchors (A, 4).
    Outputs: (R, 5) image, x1, y1, x2, y2, and scores (R,). R is ``post_nms_topN`` an image; after the last
    region stand rows of -1.
    Source: caffe2 ``operators/generate_proposals_op.cc``, ``ProposalsForOneImage``.
    """
    refuse_other_boxes(operator, are_rotated=anchors.shape[1:] == (5,))
    _refuse_misfits(operator, scores, moves, info, anchors)
    images, number, height, width = (computable(dim, "the scores") for dim in scores.shape)
    count = number * height * width
    before = _limit(operator, "pre_nms_topN", 6000, range_of(count).max)
    most = _limit(operator, "post_nms_topN", 300, before)
    flat = lengthened(exact(scores).reshape(images, count), 1, before, LOWEST)
    best, index = best_of_rows(flat, before, first_of_equals=True)
    if isinstance(count, OpenSize):
        index = index.at_most(count - 1)  # those behind the list are no candidates

    pixel, facts = last_pixel(operator), exact(info)
    boxes = apply_deltas(*_anchors_and_moves(operator, index, moves, anchors), pixel)
    image_height, image_width = facts.slice(1, 0), facts.slice(1, 1)
    boxes = cut_to_image(boxes, image_height.floor(), image_width.floor(), pixel)
    least = facts.slice(1, 2) * operator.arguments.number("min_size", 16)
    sides = [(boxes.third - boxes.first).shifted(pixel), (boxes.fourth - boxes.second).shifted(pixel)]
    is_large = (sides[0] >= least) & (sides[1] >= least)
    is_inside = (sides[0] * 0.5 + boxes.first < image_width) & (sides[1] * 0.5 + boxes.second < image_height)
    threshold = overlap_threshold(operator.arguments.number("nms_thresh", 0.7), "nms_thresh")
    rule = Suppression(threshold, overlap_of(operator))
    is_candidate = is_large & is_inside & (best > LOWEST)
    kept = suppressed(best, is_candidate, boxes, rule, before=before, most=most)
    regions = best_of_lists(kept, boxes, most)
    outputs = [regions.regions, regions.scores.reshape(regions.scores.shape[0])]
    return counted_tops(build, operator, regions.count, outputs)


def _limit(operator: Operator, name: str, default: int, largest: int) -> int:
    """How many boxes go on; all of them if the argument is not positive."""
    limit = operator.arguments.integer(name, default)
    return min(limit, largest) if limit > 0 else largest


def _anchors_and_moves(
    operator: Operator, index: Value, moves: Value, anchors: Value
) -> tuple[Boxes, list[Value]]:
    """The anchors (N, P) and the moves of the boxes that ``index`` counts in (A, H, W)."""
    images, _, height, width = (computable(dim, "the moves") for dim in moves.shape)
    number = computable(anchors.shape[0], "the number of anchors")
    places = height * width
    anchor = index / places
    place = index - anchor * places
    row = place / width
    stride = float(np.float32(1 / positive_scale(operator, 1 / 16)))
    down = row.cast(DType.FLOAT32) * stride
    across = (place - row * width).cast(DType.FLOAT32) * stride
    corners = [column.reshape(number) for column in exact(anchors).split(1)]
    shifts = (across, down, across, down)
    boxes = [corner.gathered(anchor) + shift for corner, shift in zip(corners, shifts, strict=True)]
    flat: Size = number * 4 * places
    codes = exact(moves).reshape(images, flat)
    first = anchor * (places * 4) + place
    return Boxes(*boxes), [picked(codes, first + places * step if step else first) for step in range(4)]


def _refuse_misfits(operator: Operator, scores: Value, moves: Value, info: Value, anchors: Value) -> None:
    """Raise ``ShapeError`` unless the inputs belong to one map and its anchors."""
    expect_axes(operator, scores, 4, "(N, A, H, W)")
    images, number, height, width = (computable(dim, "the scores") for dim in scores.shape)
    because = f"the scores are {scores.shape}"
    for index, value, expected in (
        (1, moves, (images, number * 4, height, width)),
        (2, info, (images, 3)),
        (3, anchors, (number, 4)),
    ):
        if value.shape != expected:
            raise misfit(operator, index, value, expected, because)
