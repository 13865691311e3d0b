"""What is refused of a net as a whole: types without a rule, names of nothing, weights that are missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.errors import (
    ConversionError,
    NetError,
    UnsupportedLayerError,
    WeightsError,
    raise_all,
)
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.ir import Array


def refuse_unknown(model: Model, layers: Sequence[Layer], framework: Framework) -> None:
    """Tell all types without a rule and all unknown fields at once, in the order of the file.

    The fields of a type without a rule are not told: they are unknown because the type is.
    """
    types = [layer for layer in layers if layer.type not in framework.rules.rules]
    errors: list[ConversionError] = [
        UnsupportedLayerError(
            f"there is no rule for this {framework.kind}",
            origin=layer.origin,
            fix=framework.advice(layer.type),
        )
        for layer in types
    ]
    explained = {layer.name for layer in types}
    errors += [error for error in model.unknown if _layer_of(error) not in explained]
    if not model.unknown:  # the user goes on without what is unknown
        errors += [_of_needed(error) for layer in layers if layer not in types for error in layer.unknown]
    raise_all(sorted(errors, key=lambda error: error.origin.line if error.origin else 0))


def _layer_of(error: ConversionError) -> str | None:
    return error.origin.layer if error.origin else None


def _of_needed(error: ConversionError) -> ConversionError:
    """The error for a field that ``allow_unknown`` cannot drop."""
    return UnsupportedLayerError(
        error.problem,
        origin=error.origin,
        where=error.where,
        blob=error.blob,
        because="the outputs need this layer, and without the field it may compute something else",
        fix=Worded(
            "remove the field if it changes no result, or cut the net before the layer with {}",
            Option("outputs", ["BLOB"]),
        ),
    )


def refuse_shapes_of_nothing(model: Model, names: Collection[str]) -> None:
    inputs = [top for layer in model.layers if layer.type == "Input" for top in layer.tops]
    for name in sorted(names):
        if name not in inputs:
            raise NetError(
                f'a shape is given for "{name}", which is no input',
                where=model.file,
                fix=f"the inputs are {', '.join(inputs) or 'none'}",
            )


def refuse_states_of_nothing(model: Model, given: Mapping[str, Array], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise NetError(
                f'an initial state is given for "{name}", which is no state',
                where=model.file,
                fix=f"the states are {', '.join(sorted(known)) or 'none'}",
            )


def refuse_missing_weights(model: Model, names: Sequence[str]) -> None:
    if names:
        raise WeightsError(
            f"no weights are given, but {len(names)} layers need them: {', '.join(names)}",
            where=model.file,
            fix=Worded("give the .caffemodel, or {} to try the topology alone", Option("random_weights", 0)),
        )
