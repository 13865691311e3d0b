"""BoxOutput, BoxGroupOutput and DecodeBBox give what the loops of zhaoweicai/mscnn and cascade-rcnn give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.small_nets import WAYS, has_engine, op, rewritten

FIELDS, STRIDES, LEAST_SCORE, LEAST_SIZE = ((24, 32), (40, 48)), (8, 16), 0.2, 10
BATCH, CLASSES = 2, 2
REACH, STRETCH = 0.25, 1.5
MEANS, DEVIATIONS = (0.01, 0.0, 0.0, 0.02), (0.1, 0.1, 0.2, 0.2)
NORMALIZATION = "bbox_reg_param {{ {} }}".format(
    " ".join([*(f"bbox_mean: {mean}" for mean in MEANS), *(f"bbox_std: {std}" for std in DEVIATIONS)])
)


Planes = Sequence[tuple[int, int]]
PLANES: Planes = ((5, 7), (3, 4))
OTHER_PLANES: Sequence[Planes] = (
    PLANES,
    ((1, 2), (1, 1)),
    ((9, 3), (5, 2)),
    ((4, 12), (2, 6)),
    ((9, 12), (5, 6)),
)
OPEN_PLANES = {0: ("H", "W"), 1: ("(H+1)//2", "(W+1)//2")}
OPEN_SIZES = {"H": (1, 5, 9), "W": (1, 7, 12)}


def maps(seed: int, planes: Planes = PLANES) -> list[Array]:
    random = np.random.default_rng(seed)
    shapes = [(BATCH, CLASSES + 4, *plane) for plane in planes]
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def box_output(fields: str, least_score: float = LEAST_SCORE) -> str:
    bases = "".join(
        f"field_w: {width} field_h: {height} downsample_rate: {stride} "
        for (width, height), stride in zip(FIELDS, STRIDES, strict=True)
    )
    sizes = f"fg_thr: {least_score} min_size: {LEAST_SIZE} field_whr: {STRETCH} field_xyr: {1 / REACH}"
    param = f"box_output_param {{ {bases} {sizes} {fields} }}"
    return op("BoxOutput", f"{param} {NORMALIZATION}", ["b0", "b1"], ["rois", "scored"])


def boxes_of_the_fork(bottoms: list[Array], image: int) -> Iterator[tuple[float, int, list[float]]]:
    """Score, number and x, y, width, height of what ``Forward_cpu`` finds in an image."""
    number = 0
    for bottom, (field_w, field_h), stride in zip(bottoms, FIELDS, STRIDES, strict=True):
        _, _, height, width = bottom.shape
        for h in range(height):
            for w in range(width):
                place = bottom[image, :, h, w]
                score = max(place[1:CLASSES]) - place[0]
                x, y, across, down = (
                    float(code) * deviation + mean
                    for code, deviation, mean in zip(place[CLASSES:], DEVIATIONS, MEANS, strict=True)
                )
                x = min(max(x, -REACH), REACH) * field_w + (w + 0.5) * stride
                y = min(max(y, -REACH), REACH) * field_h + (h + 0.5) * stride
                across = field_w * math.exp(min(max(across, -math.log(STRETCH)), math.log(STRETCH)))
                down = field_h * math.exp(min(max(down, -math.log(STRETCH)), math.log(STRETCH)))
                x, y = max(x - across / 2, 0), max(y - down / 2, 0)
                across, down = min(across, width * stride - x), min(down, height * stride - y)
                if score >= LEAST_SCORE and across >= LEAST_SIZE and down >= LEAST_SIZE:
                    yield float(score), number, [x, y, across, down]
                    number += 1


def overlap(a: list[float], b: list[float], mode: str) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    common = width * height if width > 0 and height > 0 else 0.0
    areas = a[2] * a[3], b[2] * b[3]
    whole = {"IOMU": min(areas), "IOFU": areas[0]}.get(mode, sum(areas) - common)
    return common / whole


def rows_of_the_fork(bottoms: list[Array], mode: str, before: int, most: int) -> list[list[float]]:
    rows: list[list[float]] = []
    for image in range(BATCH):
        kept: list[tuple[float, int, list[float]]] = []
        for box in sorted(boxes_of_the_fork(bottoms, image), reverse=True)[:before]:
            if all(overlap(other[2], box[2], mode) <= 0.4 for other in kept):
                kept.append(box)
        for score, _, (x, y, width, height) in kept[:most]:
            rows.append([image, x, y, x + width, y + height, score])
    return rows


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("mode", "before", "most"), [("IOU", 1000, 1000), ("IOMU", 30, 1000), ("IOFU", 1000, 5)]
)
def test_box_output(mode: str, before: int, most: int, on: Way) -> None:
    bottoms = maps(3)
    limits = f"max_nms_num: {before} max_post_nms_num: {most}" if before < 1000 or most < 1000 else ""
    layer = box_output(f'iou_thr: 0.4 nms_type: "{mode}" {limits}'.replace("max_nms_num: 1000", ""))
    inputs = {"b0": bottoms[0], "b1": bottoms[1]}
    graph = rewritten(layer, {name: array.shape for name, array in inputs.items()})
    found = prototrt.Session(graph, on=on, cut=True).run(inputs)
    expected = np.array(rows_of_the_fork(bottoms, mode, before, most), np.float32)
    np.testing.assert_allclose(found["scored"][..., 0, 0], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["rois"][..., 0, 0], expected[:, :5], rtol=1e-4, atol=1e-4)


def box_output_of_any_size() -> Graph:
    shapes = {f"b{index}": (BATCH, CLASSES + 4, *plane) for index, plane in OPEN_PLANES.items()}
    usual = {name: array.shape for name, array in zip(shapes, maps(3), strict=True)}
    layer = box_output('iou_thr: 0.4 nms_type: "IOU" max_nms_num: 30')
    return rewritten(layer, usual, shapes=shapes, sizes=OPEN_SIZES)


@pytest.mark.parametrize("on", WAYS)
def test_box_output_of_any_size(on: Way) -> None:
    session = prototrt.Session(box_output_of_any_size(), on=on, cut=True)
    for seed, planes in enumerate(OTHER_PLANES):
        bottoms = maps(seed, planes)
        expected = rows_of_the_fork(bottoms, "IOU", 30, 1000) or [[0, 1, 1, 10, 10, 0]]
        found = session.run({"b0": bottoms[0], "b1": bottoms[1]})["rois"][..., 0, 0]
        np.testing.assert_allclose(found, np.array(expected)[:, :5], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("on", WAYS)
def test_without_any_box(on: Way) -> None:
    """The fork invents a region, and gives it no score."""
    bottoms = maps(3)
    inputs = {"b0": bottoms[0], "b1": bottoms[1]}
    graph = rewritten(box_output("", least_score=99), {name: array.shape for name, array in inputs.items()})
    found = prototrt.Session(graph, on=on, cut=True).run(inputs)
    assert found["rois"][..., 0, 0].tolist() == [[0, 1, 1, 10, 10]]
    assert found["scored"][..., 0, 0].tolist() == [[0, 0, 0, 0, 0, 0]]


GROUPS = (((24, 32), (32, 24)), ((40, 48), (48, 40)))
"""Widths and heights of the anchors of each map."""


def box_group_output(fields: str) -> str:
    groups = "".join(
        "box_group_param {{ {} stride: {} }} ".format(
            " ".join(f"field_w: {width} field_h: {height}" for width, height in anchors), stride
        )
        for anchors, stride in zip(GROUPS, STRIDES, strict=True)
    )
    sizes = f"fg_thr: {LEAST_SCORE} min_size: {LEAST_SIZE} field_whr: {STRETCH} field_xyr: {1 / REACH}"
    param = f"box_group_output_param {{ {groups} {sizes} {fields} }}"
    return op("BoxGroupOutput", f"{param} {NORMALIZATION}", ["s0", "c0", "s1", "c1"], ["rois", "scored"])


def grouped_maps(seed: int, planes: Planes = PLANES) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    maps = {}
    for index, (plane, anchors) in enumerate(zip(planes, GROUPS, strict=True)):
        count = BATCH * len(anchors)
        maps[f"s{index}"] = random.random((count, 2, *plane)).astype(np.float32)
        maps[f"c{index}"] = random.standard_normal((count, 4, *plane)).astype(np.float32)
    return maps


def corners_of_the_fork(maps: dict[str, Array], image: int) -> Iterator[tuple[float, list[float]]]:
    """Score and corners of what ``BoxGroupOutputLayer::Forward_cpu`` collects in an image."""
    for index, (anchors, stride) in enumerate(zip(GROUPS, STRIDES, strict=True)):
        scores, codes = maps[f"s{index}"], maps[f"c{index}"]
        height, width = scores.shape[2:]
        for anchor, (field_w, field_h) in enumerate(anchors):
            place = image * len(anchors) + anchor
            for h in range(height):
                for w in range(width):
                    x, y, across, down = (
                        float(code) * deviation + mean
                        for code, deviation, mean in zip(
                            codes[place, :, h, w], DEVIATIONS, MEANS, strict=True
                        )
                    )
                    limit = math.log(STRETCH)
                    across = field_w * math.exp(min(max(across, -limit), limit))
                    down = field_h * math.exp(min(max(down, -limit), limit))
                    x = min(max(x, -REACH), REACH) * field_w + (w + 0.5) * stride - across / 2
                    y = min(max(y, -REACH), REACH) * field_h + (h + 0.5) * stride - down / 2
                    right, bottom = min(x + across - 1, width * stride), min(y + down - 1, height * stride)
                    x, y, score = max(x, 0), max(y, 0), 1 - float(scores[place, 0, h, w])
                    if score >= LEAST_SCORE and min(right - x, bottom - y) + 1 >= LEAST_SIZE:
                        yield score, [x, y, right, bottom]


def pixel_overlap(a: list[float], b: list[float], mode: str) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = (width + 1) * (height + 1) if width >= 0 and height > 0 else 0.0
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)]
    whole = {"IOMU": min(areas), "IOFU": areas[0]}.get(mode, sum(areas) - common)
    return common / whole


def group_rows_of_the_fork(inputs: dict[str, Array], mode: str, most: int) -> list[list[float]]:
    rows: list[list[float]] = []
    for image in range(BATCH):
        kept: list[tuple[float, list[float]]] = []
        for box in sorted(corners_of_the_fork(inputs, image), reverse=True)[:60]:
            if all(pixel_overlap(other[1], box[1], mode) <= 0.4 for other in kept):
                kept.append(box)
        rows += [[image, *corners, score] for score, corners in kept[:most]]
    return rows


def box_group_output_of_any_size() -> Graph:
    usual = {name: array.shape for name, array in grouped_maps(1).items()}
    shapes = {name: (*shape[:2], *OPEN_PLANES[int(name[1])]) for name, shape in usual.items()}
    layer = box_group_output('iou_thr: 0.4 nms_type: "IOU" max_nms_num: 60')
    return rewritten(layer, usual, shapes=shapes, sizes=OPEN_SIZES)


@pytest.mark.parametrize("on", WAYS)
def test_box_group_output_of_any_size(on: Way) -> None:
    session = prototrt.Session(box_group_output_of_any_size(), on=on, cut=True)
    for seed, planes in enumerate(OTHER_PLANES):
        inputs = grouped_maps(seed, planes)
        expected = group_rows_of_the_fork(inputs, "IOU", 1000) or [[0, 1, 1, 10, 10, 0]]
        found = session.run(inputs)["rois"][..., 0, 0]
        np.testing.assert_allclose(found, np.array(expected)[:, :5], rtol=1e-4, atol=1e-4)


@pytest.mark.trt
@pytest.mark.exhaustive
def test_of_any_size_they_build() -> None:
    assert has_engine(box_output_of_any_size())
    assert has_engine(box_group_output_of_any_size())


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("mode", "most"), [("IOU", 1000), ("IOMU", 1000), ("IOFU", 4)])
def test_box_group_output(mode: str, most: int, on: Way) -> None:
    inputs = grouped_maps(1)
    expected = group_rows_of_the_fork(inputs, mode, most)
    layer = box_group_output(f'iou_thr: 0.4 nms_type: "{mode}" max_nms_num: 60 max_post_nms_num: {most}')
    graph = rewritten(layer, {name: array.shape for name, array in inputs.items()})
    found = prototrt.Session(graph, on=on, cut=True).run(inputs)
    np.testing.assert_allclose(found["scored"][..., 0, 0], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["rois"][..., 0, 0], np.array(expected)[:, :5], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("on", WAYS)
def test_decode_bbox(on: Way) -> None:
    random = np.random.default_rng(5)
    codes = random.standard_normal((4, 8)).astype(np.float32)
    corners = random.integers(0, 50, (4, 2))
    regions = np.concatenate([np.arange(4)[:, None], corners, corners + 20], 1).astype(np.float32)
    expected = []
    for code, (image, x1, y1, x2, y2) in zip(codes[:, 4:].astype(float), regions, strict=True):
        dx, dy, dw, dh = code * DEVIATIONS + MEANS
        width, height = (x2 - x1 + 1) * math.exp(dw), (y2 - y1 + 1) * math.exp(dh)
        x = dx * (x2 - x1 + 1) + (x1 + x2) / 2 - (width - 1) / 2
        y = dy * (y2 - y1 + 1) + (y1 + y2) / 2 - (height - 1) / 2
        expected.append([image, x, y, x + width - 1, y + height - 1])
    inputs = {"codes": codes, "regions": regions}
    layer = op("DecodeBBox", NORMALIZATION, list(inputs))
    graph = rewritten(layer, {name: array.shape for name, array in inputs.items()})
    found = prototrt.Session(graph, on=on).run(inputs)["y"]
    assert found.shape == (4, 5, 1, 1)
    np.testing.assert_allclose(found[..., 0, 0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.trt
@pytest.mark.exhaustive  # of any size they build in the slow part
def test_builds() -> None:
    shapes = {f"b{index}": bottom.shape for index, bottom in enumerate(maps(0))}
    assert has_engine(rewritten(box_output("iou_thr: 0.4"), shapes))
    shapes = {name: array.shape for name, array in grouped_maps(0).items()}
    assert has_engine(rewritten(box_group_output("iou_thr: 0.4"), shapes))
