"""Stretches of time from the scores and moves of anchors, as R-C3D proposes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, misfit
from prototrt.surgery.detection.anchor_numbers import numbers_or_usual, parameters_of_anchors
from prototrt.surgery.detection.lists import LOWEST, picked
from prototrt.surgery.detection.overlaps import Boxes, Suppression, of_pixel_corners, overlap_threshold
from prototrt.surgery.detection.rows import counted_tops, rows_of_images
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.ir import Array, fixed
from prototrt.surgery.ops import Concat

_BASE = 8
"""Frames of an anchor of scale 1."""


def temporal_proposals(build: LayerBuilder, layer: Layer, score: Value, move: Value) -> list[Value]:
    """The best stretches, suppressed: scores (1, 2 A, L, 1, 1) and moves (1, 2 A, L, 1, 1) of A anchors.

    Source: VisionLearningGroup/R-C3D ``lib/rpn/proposal_layer.py``, ``lib/rpn/generate_anchors.py``,
    ``lib/tdcnn/config.py``, ``lib/tdcnn/twin_transform.py``.
    """
    parameters, settings = parameters_of_anchors(build, layer), build.settings
    scales = numbers_or_usual(parameters, "scales", tuple(range(1, 64)))
    (stride,) = numbers_or_usual(parameters, "feat_stride", ())[:1]
    anchors = len(scales)
    for index, bottom in enumerate((score, move)):
        if bottom.shape[:2] != (1, 2 * anchors) or len(bottom.shape) != 5 or bottom.shape[3:] != (1, 1):
            because = f"there are {anchors} scales, with two numbers for each at each step"
            fix = "state the scales that the net was trained with"
            raise misfit(layer, index, bottom, f"(1, {2 * anchors}, L, 1, 1)", fix, because)
    length = fixed(score.shape[2], "the length")
    count = length * anchors
    scores = exact(score).reshape(2 * anchors, length).slice(0, anchors, anchors).transpose(1, 0)
    moves = exact(move).reshape(anchors, 2, length).transpose(1, 2, 0)
    shift, reach = (moves.slice(0, place).reshape(1, count) for place in (0, 1))
    sides, centres = (
        build.constant(numbers.astype(np.float32).reshape(1, count), hint)
        for numbers, hint in zip(_anchors(scales, stride, length), ("side", "centre"), strict=True)
    )
    middle, half = shift * sides + centres, reach.exp() * sides * 0.5
    first, last = ((middle + end).at_most(length * stride - 1).at_least(0) for end in (-half, half))
    nothing = first * 0
    boxes = Boxes(first, nothing, last, nothing)
    flat = scores.reshape(1, count)
    is_candidate = (last - first + 1 >= settings.number("RPN_MIN_SIZE", 8)) & (flat > LOWEST)
    threshold = overlap_threshold(settings.number("RPN_NMS_THRESH", 0.7), "RPN_NMS_THRESH")
    before, most = settings.whole("RPN_PRE_NMS_TOP_N", 6000), settings.whole("RPN_POST_NMS_TOP_N", 300)
    before = min(before, count) if before > 0 else count
    most = min(most, before) if most > 0 else before
    how = Suppression(threshold, of_pixel_corners)
    kept = suppressed(flat, is_candidate, boxes, how, before=before, most=most)
    rows, table = rows_of_images(kept, boxes.map(lambda part: picked(part, kept.index)), most)
    image, begin, _, end, _, value = rows.filled(table).split(1)
    stretches = image.apply(Concat(1), begin, end)
    return counted_tops(build, layer, rows.count, [stretches, value][: len(layer.tops)])


def _anchors(scales: Sequence[float], stride: float, length: int) -> tuple[Array, Array]:
    """The lengths and the middles of the anchors at each step, (L, A): the middle is half a length after the first."""
    sides = np.broadcast_to(np.array(scales, np.float32) * _BASE, (length, len(scales)))
    middle = np.float32((_BASE - 1) / 2) + np.arange(length, dtype=np.float32)[:, None] * np.float32(stride)
    first, last = middle - np.float32(0.5) * (sides - 1), middle + np.float32(0.5) * (sides - 1)
    whole = last - first + 1
    return whole, first + np.float32(0.5) * whole
