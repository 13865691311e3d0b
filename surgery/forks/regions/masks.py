"""Masks and boxes of regions, and regions of the next stage. From MNC and CNN_tabletennis."""

from __future__ import annotations

from math import isqrt

import numpy as np

from prototrt.surgery.rules import (
    Array,
    DType,
    Layer,
    LayerBuilder,
    Value,
    best_of_rows,
    concatenate,
    exact,
    expect_axes,
    fixed,
    layer_rule,
    misfit,
    numbers_of,
    positive_sizes,
    python_rule,
    refuse_length,
    resampled,
)


@layer_rule("MaskPooling")
def mask_pooling(build: LayerBuilder, layer: Layer, x: Value, mask: Value) -> list[Value]:
    """Each channel of a region times the region's mask. From MNC.

    Becomes: Multiply.
    Bottoms: (R, C, H, W), masks (R, 1, H, W). Tops: the shape of the first bottom.
    Source: daijifeng001/caffe-mnc ``src/caffe/layers/mask_pooling_layer.cu``.
    """
    expect_axes(layer, 0, x, "(R, C, H, W)")
    expected = (x.shape[0], 1, *x.shape[2:])
    if mask.shape != expected:
        because = "each region has one mask, as large as its map"
        raise misfit(layer, 1, mask, expected, "resize the mask with MaskResize", because)
    return [x * mask]


@layer_rule("MaskResize")
def mask_resize(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Bilinear resizing: element i is at ``i * size / new size``, and 0 half an element after the last. From MNC.

    Becomes: MatMul, one per axis.
    Bottoms: (R, C, H, W). Tops: (R, C, output_height, output_width).
    Source: daijifeng001/caffe-mnc ``src/caffe/layers/mask_resize_layer.cu``.
    """
    expect_axes(layer, 0, x, "(R, C, H, W)")
    sizes = positive_sizes(layer.param, "output_height", "output_width", fix="set both in mask_resize_param")
    refuse_length(max(sizes))
    for axis in (3, 2):
        x = resampled(build, x, axis, _weights(fixed(x.shape[axis], f"axis {axis}"), sizes[axis - 2]))
    return [x]


def _weights(size: int, out: int) -> Array:
    """What each element of an axis adds to each of the new ones: (out, size)."""
    places = np.arange(out, dtype=np.float32) * (np.float32(size) / np.float32(out))
    weights = np.zeros((out, size), np.float32)
    for row, place in enumerate(places):
        if place <= np.float32(size - 0.5):
            place = min(place, np.float32(size - 1))
            low = int(place)
            weights[row, low] += 1 - (place - low)
            weights[row, min(low + 1, size - 1)] += place - low
    return weights


@python_rule("pylayer.mask_layer.MaskLayer")
def masks_of_rows(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Rows of numbers as square masks. From MNC.

    Becomes: Reshape.
    Bottoms: (R, S S). Tops: (R, 1, S, S).
    Source: daijifeng001/MNC ``lib/pylayer/mask_layer.py``, phase TEST.
    """
    count = numbers_of(x.shape, 1)
    side = isqrt(count or 0)
    if not count or side * side != count:
        raise misfit(layer, 0, x, "(R, S * S)", "change what makes the masks", "each row is a square mask")
    return [build.reshape(x, (x.shape[0], 1, side, side))]


@python_rule("pylayer.stage_bridge_layer.StageBridgeLayer")
def regions_of_next_stage(
    build: LayerBuilder, layer: Layer, rois: Value, move: Value, score: Value, info: Value
) -> list[Value]:
    """Regions moved by the numbers of their best class, and clipped to the image. From MNC.

    Becomes: TopK, arithmetic, Concat.
    Bottoms: rois (R, 5), moves (R, 4 K), scores (R, K), im_info with height and width. Tops: (R, 5).
    Source: daijifeng001/MNC ``lib/pylayer/stage_bridge_layer.py``, phase TEST; ``lib/transform/bbox_transform.py``.
    """
    classes = numbers_of(score.shape, 1)
    counts = (5, 4 * classes if classes else None, classes)
    for index, (bottom, count) in enumerate(zip((rois, move, score), counts, strict=True)):
        if count is None or numbers_of(bottom.shape, 1) != count or bottom.shape[0] != rois.shape[0]:
            because = "there are four moves for each class of each region"
            raise misfit(layer, index, bottom, f"(R, {count})", _FIX, because)
    size = numbers_of(info.shape, 0)
    if size is None or size < 2:
        fix = "feed both"
        raise misfit(layer, 3, info, "at least 2 numbers", fix, "it holds height and width of the image")
    rows = rois.shape[0]
    assert classes is not None
    _, best = best_of_rows(exact(score).reshape(rows, classes), 1, True)
    is_best = (
        build.counted_numbers(classes, "classes")
        .reshape(1, classes)
        .equals(best)
        .cast(DType.FLOAT32)
        .reshape(rows, classes, 1)
    )
    moves = (exact(move).reshape(rows, classes, 4) * is_best).sum(1).reshape(rows, 4).split(1)
    _, *corners = exact(rois).reshape(rows, 5).split(1)
    facts = exact(info).reshape(1, size)
    limits = facts.slice(1, 1) - 1, facts.slice(1, 0) - 1
    ends = [
        end.at_most(limit).at_least(0) for end, limit in zip(_move(corners, moves), limits * 2, strict=True)
    ]
    return [concatenate([ends[0] * 0, *ends], 1)]


@python_rule("cut_roi_layer.bbox_transform_inv_layer.BBoxTransformInvLayer")
def moved_box(build: LayerBuilder, layer: Layer, box: Value, move: Value) -> list[Value]:
    """Boxes moved by two shifts and two stretches each. From CNN_tabletennis.

    Becomes: arithmetic, Concat.
    Bottoms: boxes (N, 4), moves (N, 4). Tops: (N, 4), each x1, y1, x2 and y2.
    Source: BrotherJing/CNN_tabletennis ``lib/cut_roi_layer/bbox_transform_inv_layer.py``.
    """
    for index, bottom in enumerate((box, move)):
        if bottom.shape != (box.shape[0], 4):
            because = "there are four moves for each box"
            raise misfit(layer, index, bottom, f"({box.shape[0]}, 4)", _FIX, because)
    corners, moves = (exact(bottom).split(1) for bottom in (box, move))
    return [concatenate(_move(corners, moves), 1)]


def _move(corners: list[Value], moves: list[Value]) -> list[Value]:
    """x1, y1, x2 and y2 of a box whose middle moves by shares of its sides, which then stretch."""
    middles, halves = [], []
    for axis in range(2):
        side = corners[axis + 2] - corners[axis] + 1
        middles.append(moves[axis] * side + corners[axis] + side * 0.5)
        halves.append(moves[axis + 2].exp() * side * 0.5)
    pairs = [*zip(middles, halves, strict=True)]
    return [middle - half for middle, half in pairs] + [middle + half for middle, half in pairs]


_FIX = "give it the blobs that the net was trained with"


@python_rule("cut_roi_layer.layer.CutROILayer")
def box_of_map(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The last rows and columns of a map of chances that hold more than half of its largest. From CNN_tabletennis.

    Becomes: Reduce, Greater, arithmetic, Concat.
    Where nothing is above 0, the program keeps the box of the call before; here the box is 0.
    Bottoms: (N, 1, H, W). Tops: left, top, right and bottom (N, 4); optionally the largest (N,).
    Source: BrotherJing/CNN_tabletennis ``lib/cut_roi_layer/layer.py``.
    """
    expect_axes(layer, 0, x, "(N, 1, H, W)")
    if x.shape[1] != 1:
        raise misfit(layer, 0, x, "(N, 1, H, W)", "give it that channel", "one channel holds the chances")
    items, chances = x.shape[0], exact(x)
    largest = chances.largest(1, 2, 3).reshape(items, 1)
    ends = []
    for axis in (2, 3):
        count = fixed(x.shape[5 - axis], "a side of the map")
        is_in = (chances.largest(axis).reshape(items, count) > largest * 0.5).cast(DType.FLOAT32)
        outside = is_in.slice(1, 0) * 0
        rest = is_in.slice(1, 0, count - 1), is_in.slice(1, 1, count - 1)
        neighbours = ([outside, rest[0]], [rest[1], outside]) if count > 1 else ([outside], [outside])
        for step, parts in enumerate(neighbours):
            is_end = is_in * (1 - concatenate(parts, 1))
            places = build.constant(np.arange(step, count + step, dtype=np.float32)[None], "places")
            ends.append((is_end * places).largest(1).reshape(items, 1))
    left, right, top_, bottom = ends
    box = concatenate([left, top_, right, bottom], 1)
    return [box, largest.reshape(items)][: len(layer.tops)]
