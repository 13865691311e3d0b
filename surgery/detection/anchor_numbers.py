"""Numbers that the text of a layer in Python states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import shortened
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.building.layer_rules import python_parameters

_OF_ANCHORS = ("feat_stride", "ratios", "scales")
_MOST_NUMBERS, _LARGEST = 100, 1e6
"""How many numbers ``param_str`` may state for anchors, and how large; the known programs state up to ten."""


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
