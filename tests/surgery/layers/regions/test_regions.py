"""Regions of any size and place against the loops of the forks' sources, and rois of images that are not there."""

from __future__ import annotations

from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import failure, float32, numbers, op, run

CORNER = st.floats(-40, 80, width=32)
ROIS = st.lists(st.tuples(st.integers(0, 1), CORNER, CORNER, CORNER, CORNER), min_size=1, max_size=4)
SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))


def whole(x: np.float32) -> int:
    """C's ``round``."""
    return int(np.copysign(np.floor(np.abs(np.float64(x)) + 0.5), x))


def bins_of_roi_pooling(start: np.float32, end: np.float32, count: int, size: int) -> list[range]:
    first, last = whole(start), whole(end)
    side = np.float32(max(last - first + 1, 1)) / np.float32(count)
    edges = [(floor(np.float32(i) * side), ceil(np.float32(i + 1) * side)) for i in range(count)]
    return [range(min(max(low + first, 0), size), min(max(high + first, 0), size)) for low, high in edges]


def bins_of_psroi_pooling(start: np.float32, end: np.float32, count: int, size: int) -> list[range]:
    side = max(end - start, np.float32(0.1)) / np.float32(count)
    edges = [
        (floor(np.float32(i) * side + start), ceil(np.float32(i + 1) * side + start)) for i in range(count)
    ]
    return [range(min(max(low, 0), size), min(max(high, 0), size)) for low, high in edges]


@given(SIZES, ROIS, st.integers(1, 4), st.integers(1, 4), st.sampled_from([1.0, 0.5, 0.0625]))
def test_roi_pooling(
    sizes: tuple[int, int], rois: list[tuple[float, ...]], height: int, width: int, scale: float
) -> None:
    x, table = numbers(2, 2, *sizes), float32(rois)
    expected = np.zeros((len(rois), 2, height, width), np.float32)
    for index, (image, *corners) in enumerate(table):
        left, top, right, bottom = (corner * np.float32(scale) for corner in corners)
        for i, rows in enumerate(bins_of_roi_pooling(top, bottom, height, sizes[0])):
            for j, columns in enumerate(bins_of_roi_pooling(left, right, width, sizes[1])):
                if rows and columns:
                    seen = x[int(image)][:, rows.start : rows.stop, columns.start : columns.stop]
                    expected[index, :, i, j] = seen.max((1, 2))
    fields = f"roi_pooling_param {{ pooled_h: {height} pooled_w: {width} spatial_scale: {scale} }}"
    np.testing.assert_array_equal(pooled("ROIPooling", fields, x, table), expected)


@given(SIZES, ROIS, st.integers(1, 4), st.sampled_from([1.0, 0.5, 0.0625]))
def test_psroi_pooling(
    sizes: tuple[int, int], rois: list[tuple[float, ...]], group: int, scale: float
) -> None:
    x, table = numbers(2, 2 * group**2, *sizes), float32(rois)
    expected = np.zeros((len(rois), 2, group, group), np.float32)
    for index, (image, *corners) in enumerate(table):
        left, top, right, bottom = (np.float32(whole(corner)) for corner in corners)
        left, top, right, bottom = (
            edge * np.float32(scale) for edge in (left, top, right + np.float32(1), bottom + np.float32(1))
        )
        for i, rows in enumerate(bins_of_psroi_pooling(top, bottom, group, sizes[0])):
            for j, columns in enumerate(bins_of_psroi_pooling(left, right, group, sizes[1])):
                if rows and columns:
                    channels = x[int(image), i * group + j :: group**2]
                    seen = channels[:, rows.start : rows.stop, columns.start : columns.stop]
                    expected[index, :, i, j] = seen.mean((1, 2))
    fields = f"psroi_pooling_param {{ spatial_scale: {scale} output_dim: 2 group_size: {group} }}"
    np.testing.assert_allclose(pooled("PSROIPooling", fields, x, table), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("image", [-1, 2])
def test_images_that_are_not_there_are_refused(image: int) -> None:
    x, rois = numbers(2, 1, 3, 3), float32([[image, 0, 0, 2, 2]])
    fields = "roi_pooling_param { pooled_h: 1 pooled_w: 1 }"
    assert failure(lambda: pooled("ROIPooling", fields, x, rois), ShapeError) == (
        f'net.prototxt:3: layer "op" (ROIPooling): a roi\'s image {image} is outside the 2 images of the batch\n'
        "  fix: give indices from 0 to 1"
    )


def pooled(kind: str, fields: str, x: Array, rois: Array) -> Array:
    return run(op(kind, fields, ["x", "rois"]), {"x": x, "rois": rois})["y"]
