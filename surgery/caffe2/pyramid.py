"""Regions of a feature pyramid: collected from the levels where they were proposed, read from those that fit them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import plural
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.caffe2.boxes import last_pixel
from prototrt.surgery.caffe2.operator_rule import misfit, operator_rule
from prototrt.surgery.detection.lists import LOWEST, best_of_rows
from prototrt.surgery.detection.rows import DetectionRows, chosen_rows, counted_rows, counted_top, is_counted
from prototrt.surgery.ir import DType, fixed

_MOST_LEVELS = 16


@operator_rule("CollectRpnProposals")
def collect_rpn_proposals(build: Builder, operator: Operator, *inputs: Value) -> list[Value]:
    """The ``rpn_post_nms_topN`` best regions of all levels.

    Becomes: TopK, Gather, Select; the number of regions is one more output.
    Inputs: regions (R, 5) of each level, then their scores (R,). Outputs: (K, 5), by falling score; after the last
    region stand rows of -1.
    Source: caffe2 ``operators/collect_and_distribute_fpn_rpn_proposals_op.cc``, ``SortAndLimitRoIsByScores``.
    """
    table, rows = _collect(build, operator, inputs)
    return [counted_top(build, operator, 0, rows.filled(table), rows.count)]


@operator_rule("DistributeFpnProposals")
def distribute_fpn_proposals(build: Builder, operator: Operator, rois: Value) -> list[Value]:
    """The regions of each level that fit its size: level ``roi_canonical_level`` is of ``roi_canonical_scale`` pixels.

    Becomes: TopK, Gather, Select and arithmetic; the number of regions of each level is one more output.
    Inputs: regions (R, 4) or (R, 5). Outputs: (R, 5) of each level, of which the first rows count, with rows of -1
    after them; and the place (R,) of each region in the levels one after the other, without those rows.
    Source: caffe2 ``operators/collect_and_distribute_fpn_rpn_proposals_op.cc``, ``MapRoIsToFpnLevels``.
    """
    if len(rois.shape) != 2 or rois.shape[1] not in (4, 5):
        because = "a region is x1, y1, x2 and y2, after the number of its image"
        raise misfit(operator, 0, rois, "(R, 4) or (R, 5)", because)
    regions, rows = exact(rois), fixed(rois.shape[0], "the regions")
    if rois.shape[1] == 4:
        image = np.zeros((rows, 1), np.float32)
        regions = concatenate([build.constant(image, "image"), regions], 1)
    return _distribute(build, operator, 0, regions, is_counted(build, rois), rois)


@operator_rule("CollectAndDistributeFpnRpnProposals")
def collect_and_distribute(build: Builder, operator: Operator, *inputs: Value) -> list[Value]:
    """The best regions of all levels, then those of each level that fit its size: CollectRpnProposals and
    DistributeFpnProposals in one.

    Becomes: TopK, Gather, Select and arithmetic; the numbers of regions are further outputs.
    """
    table, rows = _collect(build, operator, inputs)
    regions = rows.filled(table)
    best = counted_top(build, operator, 0, regions, rows.count)
    return [best, *_distribute(build, operator, 1, best, rows.is_row, best)]


def _collect(build: Builder, operator: Operator, inputs: Sequence[Value]) -> tuple[Value, DetectionRows]:
    """The regions of all levels one after the other, and where the best ones are."""
    count = len(_levels(operator, "rpn", 2, 6))
    if len(inputs) != 2 * count:
        raise NetError(
            f"has {plural(len(inputs), 'input')}, expected {2 * count}",
            because=f"there are {count} levels, each with regions and their scores",
            fix=MEND_ARGUMENTS,
        )
    regions, scores = [], []
    for index, (rois, score) in enumerate(zip(inputs[:count], inputs[count:], strict=True)):
        if len(rois.shape) != 2 or rois.shape[1] != 5:
            because = "a region is the number of its image, x1, y1, x2 and y2"
            raise misfit(operator, index, rois, "(R, 5)", because)
        rows = fixed(rois.shape[0], "the regions")
        if np.prod([fixed(dim, "the scores") for dim in score.shape]) != rows:
            because = f"the regions are {rois.shape}"
            raise misfit(operator, count + index, score, f"({rows},)", because)
        regions.append(exact(rois))
        column, mask = exact(score).reshape(rows), is_counted(build, rois)
        scores.append(column if mask is None else mask.chosen(column, LOWEST))
    return concatenate(regions, 0), _best(operator, concatenate(scores, 0))


def _best(operator: Operator, scores: Value) -> DetectionRows:
    """Where the largest of these scores (R,) are; LOWEST is none."""
    rows = fixed(scores.shape[0], "the regions")
    most = operator.arguments.integer("rpn_post_nms_topN", 2000)
    room = min(most, rows) if most > 0 else rows
    best, places = best_of_rows(scores.reshape(1, rows), room, first_of_equals=True)
    is_row = (best > LOWEST).reshape(room)
    return DetectionRows(places.reshape(room), is_row, is_row.cast(DType.FLOAT32).sum(0).cast(DType.INT32))


def _distribute(
    build: Builder, operator: Operator, first: int, regions: Value, is_row: Value | None, like: Value
) -> list[Value]:
    """The outputs from ``first`` on: the regions of each level, and their places in all levels, joined."""
    levels, rows = _levels(operator, "roi", 2, 5), fixed(regions.shape[0], "the regions")
    if len(operator.tops) != first + len(levels) + 1:
        raise NetError(
            f"has {plural(len(operator.tops), 'output')}, expected {first + len(levels) + 1}",
            because=f"there are {len(levels)} levels, and one output for the places",
            fix=MEND_ARGUMENTS,
        )
    level = _level_of(operator, regions, levels).reshape(rows)
    if is_row is not None:
        level = is_row.chosen(level, levels[-1] + 1)  # rows after the last region are of no level
    outputs = []
    for index, number in enumerate(levels, first):
        chosen = chosen_rows(level.equals(number), rows)
        outputs.append(counted_top(build, operator, index, chosen.filled(regions), chosen.count))
    numbers = build.constant(np.arange(rows, dtype=np.float32), "numbers")
    order = _argsort((level - levels[0]) * rows + numbers)
    return [*outputs, counted_rows(build, _argsort(order.cast(DType.FLOAT32)), like)]


def _argsort(keys: Value) -> Value:
    """The places of these keys (R,) from the smallest to the largest."""
    rows = fixed(keys.shape[0], "the regions")
    _, places = best_of_rows((0 - keys).reshape(1, rows), rows, first_of_equals=True)
    return places.reshape(rows)


def _level_of(operator: Operator, regions: Value, levels: Sequence[int]) -> Value:
    """The level of each region (R, 1): one more for each doubling of the root of its area."""
    arguments, pixel = operator.arguments, last_pixel(operator)
    scale = arguments.integer("roi_canonical_scale", 224)
    if scale < 1:
        raise NetError(f"roi_canonical_scale is {scale}, expected at least 1", fix=MEND_ARGUMENTS)
    _, left, top_edge, right, bottom = regions.split(1)
    area = (right - left).shifted(pixel) * (bottom - top_edge).shifted(pixel)
    doublings = (area.sqrt() / scale + 1e-6).log() / math.log(2)
    level = (doublings + arguments.integer("roi_canonical_level", 4)).floor()
    return level.at_most(levels[-1]).at_least(levels[0])


def _levels(operator: Operator, kind: str, least: int, most: int) -> range:
    """From ``roi_min_level`` to ``roi_max_level``, or of ``rpn``. Raises ``NetError``."""
    first, last = (
        operator.arguments.integer(f"{kind}_{end}_level", default)
        for end, default in (("min", least), ("max", most))
    )
    if not first <= last < first + _MOST_LEVELS:
        raise NetError(
            f"{kind}_min_level is {first} and {kind}_max_level {last}, expected 1 to {_MOST_LEVELS} levels",
            fix=MEND_ARGUMENTS,
        )
    return range(first, last + 1)
