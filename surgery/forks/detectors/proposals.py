"""Regions of interest of faster-rcnn-cplusplus2, SSH and makefile/frcnn, with the anchors of each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Layer,
    LayerBuilder,
    NetError,
    Option,
    Proposals,
    Proposing,
    Settings,
    Suppression,
    UnsupportedLayerError,
    Value,
    Worded,
    best_boxes,
    expect_positive,
    layer_rule,
    numbers_or_usual,
    of_pixel_corners,
    of_pvanet,
    of_py_faster_rcnn,
    one_image,
    overlap_threshold,
    parameters_of_anchors,
    proposed,
    python_rule,
    ratios_and_scales,
)


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
        anchors=of_rpn(expect_positive(param.basesize, "basesize"), *ratios_and_scales(param)),
        stride=expect_positive(param.feat_stride, "feat_stride"),
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
        before=expect_positive(settings.whole("test_rpn_pre_nms_top_n"), "test_rpn_pre_nms_top_n"),
        most=expect_positive(settings.whole("test_rpn_post_nms_top_n"), "test_rpn_post_nms_top_n"),
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


def of_rpn(base_size: int, ratios: Sequence[float], scales: Sequence[float]) -> Array:
    """Corners (A, 4) in whole pixels around the first place: those of PVANET, cut to whole numbers.

    Source: zhanglaplace/faster-rcnn-cplusplus2 ``rpn_layer.cpp``, ``generate_anchors``.
    """
    return np.trunc(of_pvanet(base_size, ratios, scales))
