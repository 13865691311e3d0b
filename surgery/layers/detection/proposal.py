"""The layers of forks that propose regions of interest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.building.layer_rules import python_rule, which_fork
from prototrt.surgery.detection.anchor_numbers import numbers_or_usual, parameters_of_anchors
from prototrt.surgery.detection.anchors import of_happynear, of_pvanet, of_py_faster_rcnn, of_rpn
from prototrt.surgery.detection.overlaps import (
    Suppression,
    of_pixel_corners,
    of_pixel_corners_that_meet,
    overlap_threshold,
)
from prototrt.surgery.detection.proposals import (
    Proposals,
    Proposing,
    best_boxes,
    numbers_of,
    one_image,
    proposed,
)
from prototrt.surgery.ir import Array
from prototrt.surgery.layers.detection.temporal import temporal_proposals
from prototrt.surgery.settings import Settings

_STRIDE = 16
_NUMBERS_OF_ONE_SCALE = 3
"""Numbers of im_info where one scale serves heights and widths."""
"""Pixels between two places, unless PVANET's or happynear's layer states another number."""


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
    rois = proposed(build, layer, score, move, info, _proposing_of(build, layer, score, info))
    scores = rois.scores.reshape(rois.scores.shape[0])
    return rois.tops(build, layer, rois.regions, scores)


def _proposing_of(build: LayerBuilder, layer: Layer, score: Value, info: Value) -> Proposing:
    """What the fields say, as the fork reads them that they are from. Raises ``NetError``."""
    param = layer.param
    ratios, scales = _ratios_and_scales(param)
    base_size = _positive(param.base_size, "base_size")
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
        before=_positive(param.pre_nms_topn, "pre_nms_topn"),
        most=_positive(param.post_nms_topn, "post_nms_topn"),
        suppression=Suppression(threshold, of_pixel_corners_that_meet),
        scale_places=(2, 3) if numbers_of(info) > _NUMBERS_OF_ONE_SCALE else (2, 2),
        keeps_small=True,
    )


def _ratios_and_scales(param: Any) -> tuple[list[float], list[float]]:
    ratios, scales = [*param.ratio], [*param.scale]
    if not ratios or not scales or min(*ratios, *scales) <= 0:
        raise NetError(
            "ratio and scale must be stated, and be positive",
            because="anchors are made of them",
            fix="state the ratios and scales that the net was trained with",
        )
    return ratios, scales


@layer_rule("RPN")
def rpn(build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value) -> list[Value]:
    """Regions of interest of faster-rcnn-cplusplus2: the best ones, suppressed.

    Becomes: TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: scores (1, 2 A, H, W), moves (1, 4 A, H, W), im_info with height, width and scale. Tops: (R, 5, 1, 1)
    0, x1, y1, x2, y2 by falling score, and perhaps scores (R, 1, 1, 1). R is ``post_nms_topn``; all boxes with 0.
    Source: zhanglaplace/faster-rcnn-cplusplus2 ``rpn_layer.cpp``.
    """
    one_image(layer, score)
    param = layer.param
    threshold = overlap_threshold(param.nms_thresh, "nms_thresh")
    how = Proposing(
        anchors=of_rpn(_positive(param.basesize, "basesize"), *_ratios_and_scales(param)),
        stride=_positive(param.feat_stride, "feat_stride"),
        min_size=param.boxminsize,
        before=param.per_nms_topn,
        most=param.post_nms_topn,
        suppression=Suppression(
            threshold, of_pixel_corners, drops_equal=True, is_native=build.options.nms == "native"
        ),
        measures_unclipped=True,
    )
    return _tops_of_four_axes(build, layer, proposed(build, layer, score, move, info, how))


def _tops_of_four_axes(build: LayerBuilder, layer: Layer, rois: Proposals) -> list[Value]:
    rows = rois.scores.shape[0]
    regions, scores = rois.regions.reshape(rows, 5, 1, 1), rois.scores.reshape(rows, 1, 1, 1)
    return rois.tops(build, layer, regions, scores)


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
        return temporal_proposals(build, layer, score, move)
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


@python_rule("SSH.layers.proposal_layer.ProposalLayer")
def ssh_proposal(build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value) -> list[Value]:
    """Boxes of SSH: the best ones of each module, which its program suppresses after the net.

    Becomes: TopK, Gather and arithmetic.
    Bottoms: scores (1, 2 A, H, W), moves (1, 4 A, H, W), im_info with height, width and scale.
    Tops: (R, 5) 0, x1, y1, x2, y2 by falling score, and perhaps scores (R, 1). R is the setting N_DETS_PER_MODULE,
    1000 unless stated, or the number of boxes.
    Source: mahyarnajibi/SSH ``SSH/layers/proposal_layer.py``, ``SSH/configs/default_config.yml``.
    """
    one_image(layer, score)
    parameters, settings = parameters_of_anchors(build, layer, "base_size"), build.settings
    if settings.number("ANCHOR_MIN_SIZE", 0) != 0 or parameters.get("base_size", 16) != 16:
        raise UnsupportedLayerError(
            "ANCHOR_MIN_SIZE and base_size are supported only as 0 and 16",
            because="SSH's configuration for tests has these numbers",
            fix="leave them out, if the net was tested with that configuration",
        )
    (stride,) = numbers_or_usual(parameters, "feat_stride", ())[:1]
    how = Proposing(
        anchors=of_py_faster_rcnn(
            numbers_or_usual(parameters, "ratios", (0.5, 1, 2)),
            numbers_or_usual(parameters, "scales", (8, 16, 32)),
        ),
        stride=stride,
        min_size=0,
        before=settings.whole("N_DETS_PER_MODULE", 1000),
        most=0,
    )
    return [*best_boxes(build, layer, score, move, info, how)][: len(layer.tops)]


@layer_rule("FrcnnProposal")
def frcnn_proposal(build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value) -> list[Value]:
    """Regions of interest of makefile/frcnn, which has its anchors and numbers in a file: the best ones, suppressed.

    Becomes: TopK, a While with Gather, Select and arithmetic; its count is one more output.
    Bottoms: scores (1, 2 A, H, W), moves (1, 4 A, H, W), im_info with height, width and scale.
    Tops: (R, 5, 1, 1) 0, x1, y1, x2, y2 by falling score, and perhaps scores (R, 1, 1, 1). The fork's JSON
    file is the file of settings.
    Source: makefile/frcnn ``src/caffe/FRCNN/frcnn_proposal_layer.cpp``, ``src/caffe/FRCNN/util``.
    """
    one_image(layer, score)
    settings = build.settings
    _refuse_missing(settings, [] if layer.param.feat_stride else ["feat_stride"])
    if settings.whole("test_soft_nms", 0):
        raise UnsupportedLayerError(
            "test_soft_nms is set",
            because="scores that decay are not supported",
            fix="set it to 0: then boxes that overlap a better one are dropped",
        )
    threshold = overlap_threshold(settings.number("test_rpn_nms_thresh"), "test_rpn_nms_thresh")
    how = Proposing(
        anchors=_anchors_of(settings),
        stride=layer.param.feat_stride or settings.whole("feat_stride"),
        min_size=math.trunc(settings.number("test_rpn_min_size")),
        before=_positive(settings.whole("test_rpn_pre_nms_top_n"), "test_rpn_pre_nms_top_n"),
        most=_positive(settings.whole("test_rpn_post_nms_top_n"), "test_rpn_post_nms_top_n"),
        suppression=Suppression(
            threshold, of_pixel_corners, first_of_equals=False, is_native=build.options.nms == "native"
        ),
        least_score=settings.number("test_rpn_score_thresh", 0),
    )
    return _tops_of_four_axes(build, layer, proposed(build, layer, score, move, info, how))


_SETTINGS = ("test_rpn_nms_thresh", "test_rpn_min_size", "test_rpn_pre_nms_top_n", "test_rpn_post_nms_top_n")


def _refuse_missing(settings: Settings, names: Sequence[str]) -> None:
    missing = [name for name in ("anchors", *names, *_SETTINGS) if name not in settings]
    if missing:
        raise NetError(
            f"needs settings that the model does not contain: {', '.join(missing)}",
            because="the program reads them from a JSON file",
            fix=Worded("give that file with {}", Option("settings", "config.json")),
        )


def _anchors_of(settings: Settings) -> Array:
    numbers = settings.numbers("anchors")
    if not numbers or len(numbers) % 4:
        raise NetError(
            f"the setting anchors has {len(numbers)} numbers, expected four for each anchor",
            fix="state the corners of each anchor around the first place, in pixels: x1, y1, x2, y2",
        )
    return np.array(numbers, np.float32).reshape(-1, 4)


def _positive(number: int, field: str) -> Any:
    if number <= 0:
        raise NetError(
            f"{field} is {number}, expected 1 or more", fix=f"state {field} as in the training net"
        )
    return number
