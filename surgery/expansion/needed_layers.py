"""The needed part of a net: the blobs to compute, and the layers that they depend on."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.advice import CHOOSE_ANOTHER_NET
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import Worded, listed
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.ir import LeftOut

ALL = "all"
"""The name of an output that stands for every blob."""


@dataclass(frozen=True, slots=True)
class NeededPart:
    """The layers to expand, in the order of the file, and the blobs to compute, by their SSA names.

    ``was_asked_for`` says whether the user named these blobs. ``left_out`` are layers that the net ends before
    in any case.
    """

    layers: Sequence[Layer]
    wanted: Sequence[str]
    was_asked_for: bool
    left_out: Sequence[LeftOut]


def needed_part(model: Model, outputs: Sequence[str] | None, framework: Framework) -> NeededPart:
    """The part that these outputs need; without outputs, that of the framework's usual ones. Raises ``NetError``."""
    is_all = list(outputs or ()) == [ALL] and ALL not in model.blobs
    if outputs is not None and not is_all:
        named = _named_blobs(model, outputs)
        return NeededPart(_needed_layers(model, named), named, True, ())
    usual, left_out = framework.usual_outputs(model, _final_blobs(model))
    layers = _needed_layers(model, usual)
    return NeededPart(layers, _every_blob(model, layers) if is_all else usual, False, left_out)


def inputs_of(model: Model) -> tuple[str, ...]:
    """The blobs that are fed into the whole net."""
    return tuple(top for layer in model.layers if layer.type == "Input" for top in layer.tops)


def _final_blobs(model: Model) -> list[str]:
    """The blobs that no layer reads."""
    inputs = inputs_of(model)
    names = [name for name in model.outputs if name not in inputs]
    if not names:
        raise NetError(
            "the net computes nothing: every blob is read by another layer",
            where=model.file,
            fix=Worded("add a layer that computes something, or {}", CHOOSE_ANOTHER_NET),
        )
    return names


def _named_blobs(model: Model, outputs: Sequence[str]) -> list[str]:
    """The blobs that the user named."""
    inputs = inputs_of(model)
    written = {name for layer in model.layers for name in layer.tops}
    wanted = {asked: model.blobs.get(asked, asked) for asked in outputs}
    for asked, name in wanted.items():
        if name not in written:
            close = difflib.get_close_matches(asked, {*model.blobs, *written}, 5) or sorted(model.blobs)
            raise NetError(
                f'no layer writes the output "{asked}"',
                where=model.file,
                fix=Worded("ask for a blob of the net, such as {}", listed(close)),
            )
        if name in inputs:
            raise NetError(
                f'"{asked}" is an input, not an output',
                where=model.file,
                fix="ask for a blob that a layer computes",
            )
    return [*wanted.values()]


def _every_blob(model: Model, layers: Sequence[Layer]) -> list[str]:
    """All blobs that these layers compute, each by its last value."""
    last = set(model.blobs.values())
    return [top for layer in layers if layer.type != "Input" for top in layer.tops if top in last]


def _needed_layers(model: Model, wanted: Sequence[str]) -> list[Layer]:
    """The layers that the wanted blobs depend on, in the order of the file."""
    needed = set(wanted)
    kept: list[Layer] = []
    for layer in reversed(model.layers):
        if needed.intersection(layer.tops):
            needed.update(layer.bottoms)
            kept.append(layer)
    return kept[::-1]
