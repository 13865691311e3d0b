"""The number of bottoms of a layer, from the signature of its rule."""

from __future__ import annotations

import inspect
from functools import cache
from typing import NamedTuple

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import counted
from prototrt.surgery.expansion.layer_builder import LayerRule


class _Bottoms(NamedTuple):
    """The bottoms that a rule takes: their names, and how many; ``most`` is None where there is no limit."""

    names: tuple[str, ...]
    least: int
    most: int | None


def takes_bottoms(rule: LayerRule, layer: Layer) -> bool:
    """Whether the layer has as many bottoms as the rule's signature."""
    _, least, most = _bottoms_of(rule)
    return least <= len(layer.bottoms) and (most is None or len(layer.bottoms) <= most)


def names_of_bottoms(rule: LayerRule) -> tuple[str, ...]:
    """What the rule calls its bottoms."""
    return _bottoms_of(rule).names


def check_bottoms(rule: LayerRule, layer: Layer) -> None:
    """The rule's signature says which bottoms a layer has."""
    if not takes_bottoms(rule, layer):
        named, least, most = _bottoms_of(rule)
        count = len(layer.bottoms)
        span = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        names = ", ".join(named)
        word = layer.bottom_word
        raise NetError(
            f"has {counted(count, word)}, expected {span}",
            origin=layer.origin,
            fix=f"give it the {word}s {names}" if names else f"remove its {word}s",
        )


@cache
def _bottoms_of(rule: LayerRule) -> _Bottoms:
    """Read once for each rule: a net has many layers of few types."""
    _, _, *parameters = inspect.signature(rule).parameters.values()
    named = [item for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
    least = sum(item.default is item.empty for item in named)
    most = len(named) if len(named) == len(parameters) else None
    return _Bottoms(tuple(item.name for item in named), least, most)
