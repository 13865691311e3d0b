"""The layers of forks that propose regions of interest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, misfit
from prototrt.surgery.building.layer_rules import python_rule, which_fork
from prototrt.surgery.detection.anchors import (
    expect_positive,
    numbers_or_usual,
    of_happynear,
    of_pvanet,
    of_py_faster_rcnn,
    parameters_of_anchors,
    ratios_and_scales,
)
from prototrt.surgery.detection.lists import LOWEST, picked
from prototrt.surgery.detection.overlaps import (
    Boxes,
    Suppression,
    of_pixel_corners,
    of_pixel_corners_that_meet,
    overlap_threshold,
)
from prototrt.surgery.detection.proposals import Proposing, numbers_of, one_image, proposed
from prototrt.surgery.detection.rows import counted_tops, rows_of_images
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.ir import Array, fixed
from prototrt.surgery.ops import Concat

_STRIDE = 16
"""Pixels between two places, unless PVANET's or happynear's layer states another number."""
_NUMBERS_OF_ONE_SCALE = 3
"""Numbers of im_info where one scale serves heights and widths."""
_BASE = 8
"""Frames of an anchor of scale 1."""


@layer_rule("Proposal")
def proposal(build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value) -> list[Value]:
    """Regions of interest of PVANET, or of happynear, whose ``scale`` is in pixels: the best ones, suppressed.

    Becomes: TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: scores (N, 2 A, H, W), moves (N, 4 A, H, W), im_info with height, width and the scales of
    both, or one scale, as in mini-caffe; PVANET takes one image. Tops: (R, 5) image, x1, y1, x2, y2 by falling score,
    and perhaps scores (R,). R is ``post_nms_topn`` an image; behind the last one stand rows of -1.
    Source: sanghoon/caffe and happynear/caffe-windows ``src/caffe/layers/proposal_layer.cpp``; luoyetx/mini-caffe
    ``src/layers/proposal_layer.cpp``.
    """
    rois = proposed(build, layer, score, move, info, _variant_of(build, layer, score, info))
    scores = rois.scores.reshape(rois.scores.shape[0])
    return rois.tops(build, layer, rois.regions, scores)


def _variant_of(build: LayerBuilder, layer: Layer, score: Value, info: Value) -> Proposing:
    """What the fields say, as the fork reads them that they are from. Raises ``NetError``."""
    param = layer.param
    ratios, scales = ratios_and_scales(param)
    base_size = expect_positive(param.base_size, "base_size")
    is_in_pixels = min(scales) >= base_size
    fork = which_fork(build, layer, "happynear" if is_in_pixels else "pvanet")
    if fork == "pvanet":
        one_image(layer, score)
    made = of_happynear if fork == "happynear" else of_pvanet
    threshold = overlap_threshold(param.nms_thresh, "nms_thresh")
    return Proposing(
        anchors=made(base_size, ratios, scales),
        stride=param.feat_stride if param.HasField("feat_stride") else _STRIDE,
        min_size=param.min_size,
        before=expect_positive(param.pre_nms_topn, "pre_nms_topn"),
        most=expect_positive(param.post_nms_topn, "post_nms_topn"),
        suppression=Suppression(threshold, of_pixel_corners_that_meet),
        scale_places=(2, 3) if numbers_of(info) > _NUMBERS_OF_ONE_SCALE else (2, 2),
        keeps_small=True,
    )


@python_rule("rpn.proposal_layer.ProposalLayer", "pylayer.proposal_layer.ProposalLayer")
def py_faster_rcnn_proposal(
    build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value | None = None
) -> list[Value]:
    """Regions of interest of py-faster-rcnn, pva-faster-rcnn and MNC, or times of R-C3D: the best ones, suppressed.

    Becomes: TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: scores (1, 2 A, H, W), moves (1, 4 A, H, W), im_info with height, width and scale.
    Tops: (R, 5) 0, x1, y1, x2, y2 by falling score, and perhaps scores (R, 1). Counts and thresholds are
    those of the program's configuration for tests, unless the settings say otherwise.
    R-C3D and JEDDi-Net: scores (1, 2 A, L, 1, 1) and moves (1, 2 A, L, 1, 1), no im_info. Tops: (R, 3) 0, x1, x2,
    frames from the first to the last, and perhaps scores (R, 1).
    Source: py-faster-rcnn ``lib/rpn/proposal_layer.py``, ``lib/rpn/generate_anchors.py``,
    ``lib/fast_rcnn/config.py``, ``lib/nms/py_cpu_nms.py``; daijifeng001/MNC ``lib/pylayer/proposal_layer.py``;
    VisionLearningGroup/R-C3D ``lib/rpn/proposal_layer.py``.
    """
    if info is None:
        return _temporal_proposals(build, layer, score, move)
    one_image(layer, score)
    parameters, settings = parameters_of_anchors(build, layer), build.settings
    (stride,) = numbers_or_usual(parameters, "feat_stride", ())[:1]
    threshold = overlap_threshold(settings.number("RPN_NMS_THRESH", 0.7), "RPN_NMS_THRESH")
    how = Proposing(
        anchors=of_py_faster_rcnn(
            numbers_or_usual(parameters, "ratios", (0.5, 1, 2)),
            numbers_or_usual(parameters, "scales", (8, 16, 32)),
        ),
        stride=stride,
        min_size=settings.number("RPN_MIN_SIZE", 16),
        before=settings.whole("RPN_PRE_NMS_TOP_N", 6000),
        most=settings.whole("RPN_POST_NMS_TOP_N", 300),
        suppression=Suppression(threshold, of_pixel_corners, is_native=build.options.nms == "native"),
    )
    rois = proposed(build, layer, score, move, info, how)
    return rois.tops(build, layer, rois.regions, rois.scores)


def _temporal_proposals(build: LayerBuilder, layer: Layer, score: Value, move: Value) -> list[Value]:
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
