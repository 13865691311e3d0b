"""The needed part of a net: the blobs to compute, and the layers that they depend on."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.advice import CHOOSE_ANOTHER_NET
from prototrt.caffe_proto.errors import NetError
from prototrt.caffe_proto.wording import Worded, listed

ALL = "all"
"""The name of an output that stands for every blob."""


def wanted_blobs(model: Model, outputs: Sequence[str] | None) -> list[str]:
    """SSA names of the blobs to compute."""
    inputs = {top for layer in model.layers if layer.type == "Input" for top in layer.tops}
    if outputs is None:
        names = [name for name in model.outputs if name not in inputs]
        if not names:
            raise NetError(
                "the net computes nothing: every blob is read by another layer",
                where=model.file,
                fix=Worded("add a layer that computes something, or {}", CHOOSE_ANOTHER_NET),
            )
        return names
    written = {name for layer in model.layers for name in layer.tops}
    wanted = [model.blobs.get(name, name) for name in dict.fromkeys(outputs)]
    for asked, name in zip(dict.fromkeys(outputs), wanted, strict=True):
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
    return wanted


def asks_for_all(model: Model, outputs: Sequence[str] | None) -> bool:
    """Whether every blob is wanted: the one output is called ``all``, and no blob is."""
    return list(outputs or ()) == [ALL] and ALL not in model.blobs


def every_blob(model: Model, layers: Sequence[Layer]) -> list[str]:
    """SSA names of all blobs that these layers compute, each by its last value."""
    last = set(model.blobs.values())
    return [top for layer in layers if layer.type != "Input" for top in layer.tops if top in last]


def needed_layers(model: Model, wanted: Sequence[str]) -> list[Layer]:
    """The layers that the wanted blobs depend on, in the order of the file."""
    needed = set(wanted)
    kept: list[Layer] = []
    for layer in reversed(model.layers):
        if needed.intersection(layer.tops):
            needed.update(layer.bottoms)
            kept.append(layer)
    return kept[::-1]
