"""Where to cut a net if only a part of it can be converted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    Problems,
    ShapeError,
    UnsupportedLayerError,
    WeightsError,
)
from prototrt.caffe_proto.common.wording import Command, Option, Worded

AUTO = "auto"
"""The name of an output that cuts the net before the layers that cannot be converted."""


def last_computable(
    layers: Sequence[Layer], expanded: Collection[Layer], wanted: Collection[str]
) -> list[str]:
    """The outputs of a cut net: all computed blobs that are outputs or are read by a layer that is left out.

    ``layers`` are needed for the ``wanted`` values; ``expanded`` are those that can be converted.
    Inputs are not included.
    """
    read = {bottom for layer in layers if layer not in expanded for bottom in layer.bottoms} | set(wanted)
    made = (top for layer in layers if layer in expanded and layer.bottoms for top in layer.tops)
    return [top for top in made if top in read]


def independent(layers: Sequence[Layer], blocked: Collection[Layer], given: Collection[str]) -> set[Layer]:
    """The layers that depend on nothing that is blocked. ``given`` blobs are available."""
    made = set(given)
    kept = set()
    for layer in layers:
        if layer not in blocked and made.issuperset(layer.bottoms):
            kept.add(layer)
            made.update(layer.tops)
    return kept


def can_be_avoided(errors: Iterable[ConversionError]) -> bool:
    """Whether unsupported layers cause the errors, rather than weights or sizes that do not fit."""
    return not any(isinstance(error, (ShapeError, WeightsError)) for error in errors)


def with_advice(
    errors: Sequence[ConversionError], cut: Sequence[str], shapes: Mapping[str, Sequence[int | str]]
) -> ConversionError:
    """All errors as one; where layers are not supported, with the options that convert the rest of the net.

    The options are the outputs in ``cut`` and the missing ``shapes``.
    """
    unsupported = [error for error in errors if isinstance(error, UnsupportedLayerError)]
    if not unsupported:
        cut = ()
    elif not cut and not any(error.fix for error in unsupported):
        unsupported[-1].fix = Worded("`{}` lists the types that can be converted", Command("layers"))
    options = [Option("outputs", list(cut)), *([Option("shapes", shapes)] if shapes else [])]
    command = Worded.joined(" ", options)
    if len(errors) > 1:
        return Problems(errors, fix=Worded("convert the supported part: {}", command) if cut else None)
    (error,) = errors
    if cut:
        advice = Worded("convert the part before it: {}", command)
        error.fix = Worded("{}; or {}", error.fix, advice) if error.fix else advice
    return error
