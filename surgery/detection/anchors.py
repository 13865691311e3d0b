"""Boxes around one place of a map, from which proposals are made; each fork rounds in another way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototrt.surgery.ir import Array


def of_pvanet(base_size: int, ratios: Sequence[float], scales: Sequence[float]) -> Array:
    """Corners (A, 4) in pixels around the first place: ``scale`` multiplies ``base_size``.

    Source: sanghoon/caffe ``src/caffe/layers/proposal_layer.cpp``, ``generate_anchors``.
    """
    corners = []
    for ratio in np.array(ratios, np.float32):
        width = _round(np.sqrt(np.float32(base_size * base_size) / ratio))
        height = _round(width * ratio)
        corners += [_corners_around(base_size, width * scale, height * scale) for scale in _floats(scales)]
    return np.array(corners, np.float32)


def of_happynear(base_size: int, ratios: Sequence[float], scales: Sequence[float]) -> Array:
    """Corners (A, 4) in pixels around the first place: ``scale`` is the side of an anchor in pixels.

    Source: happynear/caffe-windows ``src/caffe/layers/proposal_layer.cpp``, ``generate_anchors``.
    """
    corners = []
    for ratio in np.array(ratios, np.float32):
        width = np.sqrt(np.float32(base_size * base_size) / ratio)
        sides = (width, width * ratio)
        for scale in _floats(scales):
            across, down = (_round(side * scale / base_size - 1) for side in sides)
            corners.append(_corners_around(base_size, across + 1, down + 1))
    return np.array(corners, np.float32)


def of_py_faster_rcnn(ratios: Sequence[float], scales: Sequence[float]) -> Array:
    """Corners (A, 4) in pixels around the first place, for a base of 16 pixels.

    Source: py-faster-rcnn ``lib/rpn/generate_anchors.py``.
    """
    corners = []
    for ratio in ratios:
        width = np.round(np.sqrt(256 / ratio))
        height = np.round(width * ratio)
        corners += [_corners_around(16, width * scale, height * scale) for scale in scales]
    return np.array(corners, np.float32)


def _corners_around(base_size: int, width: Any, height: Any) -> tuple[float, float, float, float]:
    centre, across, down = (base_size - 1) / 2, (width - 1) / 2, (height - 1) / 2
    return centre - across, centre - down, centre + across, centre + down


def _round(number: float) -> np.float32:
    return np.float32(np.trunc(np.float32(number) + np.float32(0.5)))


def _floats(numbers: Sequence[float]) -> Array:
    return np.array(numbers, np.float32)
