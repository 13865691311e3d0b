"""Narrow pieces of lines of text, as CTPN proposes them."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.rules import (
    Array,
    DType,
    Layer,
    LayerBuilder,
    Size,
    Value,
    computable,
    concatenate,
    exact,
    misfit,
    numbers_of,
    numbers_or_usual,
    parameters_of_anchors,
    python_rule,
)

_HEIGHTS = (11, 16, 23, 33, 48, 68, 97, 139, 198, 283)
_SIDE = 16
"""Pixels: the width of each anchor."""


@python_rule("layers.text_proposal_layer.ProposalLayer")
def text_proposals(build: LayerBuilder, layer: Layer, score: Value, move: Value, info: Value) -> list[Value]:
    """All pieces of text lines of CTPN, moved up and down, and their scores; its program suppresses and joins them.

    Becomes: arithmetic, Concat.
    Bottoms: scores (1, 20, H, W), moves (1, 20, H, W), im_info with height and width. Tops: (H W 10, 4) x1, y1, x2, y2,
    and scores (H W 10, 1).
    Source: tianzhi0549/CTPN ``src/layers/text_proposal_layer.py``, ``src/anchor.py``.
    """
    number = len(_HEIGHTS)
    for index, bottom in enumerate((score, move)):
        if len(bottom.shape) != 4 or bottom.shape[:2] != (1, 2 * number):
            because = f"there are {number} anchors at each place, with two numbers for each"
            fix = "use the net that CTPN was trained with"
            raise misfit(layer, index, bottom, f"(1, {2 * number}, H, W)", fix, because)
    size = numbers_of(info.shape, 0)
    if size is None or size < 2:
        fix = "feed both"
        raise misfit(layer, 2, info, "at least 2 numbers", fix, "it holds height and width of the image")
    (stride,) = numbers_or_usual(parameters_of_anchors(build, layer), "feat_stride", ())[:1]
    height, width = computable(score.shape[2], "the height"), computable(score.shape[3], "the width")
    tops, bottoms = _edges_of_anchors()
    sides, centres = bottoms - tops + 1, (tops + bottoms) / 2
    facts = exact(info).reshape(1, size)
    last_row, last_column = (facts.slice(1, axis).reshape(1, 1, 1) - 1 for axis in (0, 1))
    moves = exact(move).reshape(number, 2, height, width).transpose(1, 2, 3, 0)
    shift, stretch = (moves.slice(0, place).reshape(height, width, number) for place in (0, 1))
    side = stretch.exp() * _of_anchors(build, sides)
    centre = _starts(build, height, stride, 0) + _of_anchors(build, centres)
    top = shift * _of_anchors(build, sides) + centre - side * 0.5
    column = _starts(build, width, stride, 1)
    shape = (height, width, number)
    across = [
        build.broadcast((column + edge).at_most(last_column).at_least(0), shape, "across")
        for edge in (0, _SIDE - 1)
    ]
    down = [edge.at_most(last_row).at_least(0) for edge in (top, top + side)]
    count = height * width * number
    parts = [part.reshape(count, 1) for part in (across[0], down[0], across[1], down[1])]
    scores = exact(score).slice(1, number, number).transpose(0, 2, 3, 1).reshape(count, 1)
    return [concatenate(parts, 1), scores][: len(layer.tops)]


def _edges_of_anchors() -> tuple[Array, Array]:
    """The first and the last rows of the anchors of the first place: halves are cut towards 0, as whole numbers are."""
    middle, halves = (_SIDE - 1) / 2, np.array(_HEIGHTS) // 2
    return np.trunc(middle - halves), np.trunc(middle + halves)


def _of_anchors(build: LayerBuilder, numbers: Array) -> Value:
    return build.constant(numbers.astype(np.float32)[None, None], "anchors")


def _starts(build: LayerBuilder, places: Size, stride: float, axis: int) -> Value:
    """Where the places of an axis begin, in pixels, along an axis of three."""
    counted = build.counted_numbers(places, "places", dtype=DType.FLOAT32)
    return build.aligned(counted, 3, axis) * stride
