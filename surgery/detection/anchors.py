"""Boxes around one place of a map, from which proposals are made: what a layer states, and how each fork rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import shortened
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.building.layer_rules import python_parameters
from prototrt.surgery.ir import Array

_OF_ANCHORS = ("feat_stride", "ratios", "scales")
_MOST_NUMBERS, _LARGEST = 100, 1e6
"""How many numbers ``param_str`` may state for anchors, and how large; the known programs state up to ten."""


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


def parameters_of_anchors(build: LayerBuilder, layer: Layer, *further: str) -> dict[str, Any]:
    """What ``param_str`` states. Warns of what no rule reads: the layer may be of another fork."""
    parameters = python_parameters(layer)
    for name in [name for name in parameters if name not in (*_OF_ANCHORS, *further)]:
        build.warn(
            f"param_str states {shortened(repr(name))}, which is not read: compare boxes with those of the net's"
            " program"
        )
    return parameters


def numbers_or_usual(parameters: Mapping[str, Any], name: str, usual: Sequence[float]) -> Sequence[float]:
    """A number, or several, that ``param_str`` states. Raises ``NetError`` for what is none, or not positive."""
    value = parameters.get(name, usual)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    if not 0 < len(numbers) <= _MOST_NUMBERS or not all(map(_is_positive, numbers)):
        raise NetError(
            f"param_str states {name} as {shortened(repr(value))}, expected positive numbers"
            if name in parameters
            else f"param_str states no {name}",
            fix="state what the net was trained with, as in {'feat_stride': 16, 'scales': [8, 16, 32]}",
        )
    return numbers


def _is_positive(number: object) -> bool:
    """Whether it is a number that anchors can be made of; nan is none."""
    return type(number) in (int, float) and 0 < cast("float", number) <= _LARGEST


def ratios_and_scales(param: Any) -> tuple[list[float], list[float]]:
    ratios, scales = [*param.ratio], [*param.scale]
    if not ratios or not scales or min(*ratios, *scales) <= 0:
        raise NetError(
            "ratio and scale must be stated, and be positive",
            because="anchors are made of them",
            fix="state the ratios and scales that the net was trained with",
        )
    return ratios, scales


def expect_positive(number: int, field: str) -> Any:
    if number <= 0:
        raise NetError(
            f"{field} is {number}, expected 1 or more", fix=f"state {field} as in the training net"
        )
    return number
