"""Keypoints from maps that say how likely each place of a box is."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.surgery.building.bottoms import exact
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, concatenate
from prototrt.surgery.caffe2.operator_rule import expect_axes, misfit, operator_rule
from prototrt.surgery.detection.lists import best_of_rows, picked
from prototrt.surgery.detection.rows import counted_rows
from prototrt.surgery.ir import DType, fixed
from prototrt.surgery.ops import Softmax

_FLAT = 1e-4
"""Below this determinant a map is taken as flat around its largest element."""
_FARTHEST = 1.5
"""Elements that a maximum may lie from the largest element."""


@operator_rule("HeatmapMaxKeypoint")
def heatmap_max_keypoint(build: Builder, operator: Operator, maps: Value, boxes: Value) -> list[Value]:
    """Where each map has its maximum: the largest element, moved to the top of the parabola through its neighbours.

    Becomes: TopK, Gather, Select and arithmetic; Softmax with ``should_output_softmax``.
    Inputs: maps (R, K, S, S), boxes (R, 4): x1, y1, x2, y2. Outputs: (R, 4, K), x and y in the unit of the boxes, the
    height of the maximum, and the share of the largest element, or 0 without ``should_output_softmax``.
    Source: caffe2 ``operators/heatmap_max_keypoint_op.cc``, ``RunOnDevice``.
    """
    _refuse_misfits(operator, maps, boxes)
    rows, points, size = (fixed(dim, "the maps") for dim in maps.shape[:3])
    flat = exact(maps).reshape(rows * points, size * size)
    best, place = best_of_rows(flat, 1, first_of_equals=True)
    row = place / size
    column = place - row * size
    across, down, height = _top_of_parabola(_neighbours(flat, row, column, size))
    share = best * 0
    if operator.arguments.flag("should_output_softmax"):
        share = picked(flat.apply(Softmax(1)), place)
    corners = [part.reshape(rows, 1) for part in exact(boxes).slice(1, 0, 4).split(1)]
    xs, ys = (
        (index.cast(DType.FLOAT32) + shift + 0.5).reshape(rows, points) * (high - low).at_least(1) / size
        + low
        for index, shift, low, high in (
            (column, across, corners[0], corners[2]),
            (row, down, corners[1], corners[3]),
        )
    )
    parts = [xs, ys, height.reshape(rows, points), share.reshape(rows, points)]
    result = concatenate([part.reshape(rows, 1, points) for part in parts], 1)
    return [counted_rows(build, result, maps)]


def _neighbours(flat: Value, row: Value, column: Value, size: int) -> list[Value]:
    """The nine elements around a place of each map (M, 1), row by row. At an edge the opposite one stands for a missing
    one."""
    build = flat.build
    steps = np.arange(9, dtype=np.int32)[None]
    ys, xs = (
        _mirror(place, build.constant(step - 1, "steps"), size)
        for place, step in ((row, steps // 3), (column, steps % 3))
    )
    return picked(flat, ys * size + xs).split(1)


def _mirror(place: Value, step: Value, size: int) -> Value:
    """A place moved by a step, which is turned round where it leads out of the map."""
    moved = place + step
    is_outside = (moved < 0) | (moved >= size)
    return is_outside.chosen(place - step, moved)


def _top_of_parabola(around: list[Value]) -> tuple[Value, Value, Value]:
    """How far right and down of the middle the maximum lies, and its height."""
    middle = around[4]
    slope_x, slope_y = (around[5] - around[3]) * 0.5, (around[7] - around[1]) * 0.5
    bend_x, bend_y = (a + b - middle * 2 for a, b in ((around[3], around[5]), (around[1], around[7])))
    twist = (around[8] - around[6] - around[2] + around[0]) * 0.25
    determinant = bend_x * bend_y - twist * twist
    is_flat = abs(determinant) < _FLAT
    divisor = is_flat.chosen(1, determinant)
    across = (twist * slope_y - bend_y * slope_x) / divisor
    down = (twist * slope_x - bend_x * slope_y) / divisor
    larger = abs(across).at_least(abs(down))
    shrink = (larger > _FARTHEST).chosen(_FARTHEST / larger.at_least(_FARTHEST), 1)
    across, down = (is_flat.chosen(0, move * shrink) for move in (across, down))
    curve = (bend_x * across * across + bend_y * down * down) * 0.5 + twist * across * down
    return across, down, middle + slope_x * across + slope_y * down + curve


def _refuse_misfits(operator: Operator, maps: Value, boxes: Value) -> None:
    expect_axes(operator, maps, 4, "(R, K, S, S)")
    if maps.shape[2] != maps.shape[3] or fixed(maps.shape[2], "the size of a map") < 2:
        because = "a map is a square of 2 or more elements a side"
        raise misfit(operator, 0, maps, "(R, K, S, S)", because)
    expect_axes(operator, boxes, 2, "(R, 4)", 1)
    if boxes.shape[0] != maps.shape[0] or fixed(boxes.shape[1], "the boxes") < 4:
        because = f"the maps are {maps.shape}"
        raise misfit(operator, 1, boxes, f"({maps.shape[0]}, 4)", because)
