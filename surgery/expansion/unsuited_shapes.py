"""Shapes from the user that cause errors in a net that is correct with its own shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import ConversionError, Problems, ShapeError, WeightsError, raise_all
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.expansion.known_inputs import given_shapes, profile_of
from prototrt.surgery.ir.profiles import Sizes
from prototrt.surgery.options import RewriteOptions


def refuse_unsuited_shapes(
    model: Model,
    options: RewriteOptions,
    error: ConversionError,
    is_sound: Callable[[RewriteOptions], bool],
) -> None:
    """An error about the user's shapes if the net is correct without them; otherwise ``error``.

    Shapes with other sizes but the same number of axes are reported only if weights do not fit.
    """
    given, profile = given_shapes(options), profile_of(options)
    asked = {**profile.max, **profile.min, **profile.opt, **given}
    stated = dict(_stated(model))
    errors = error.errors if isinstance(error, Problems) else [error]
    of_weights = all(isinstance(each, WeightsError) for each in errors)
    others = {
        name: asked[name]
        for name, (_, shape) in stated.items()
        if name in asked and (len(asked[name]) != len(shape) or (of_weights and asked[name] != shape))
    }
    if not others or any(each.origin and each.origin.type == "Input" for each in errors):
        return
    try:
        is_shapes_fault = is_sound(_omitting(options, others))
    except ConversionError:
        return
    if is_shapes_fault:
        because = Worded("with it, {}", _told(errors[0]))
        raise_all([_unsuited(*stated[name], name, shape, because) for name, shape in others.items()])


def _omitting(options: RewriteOptions, names: Mapping[str, Sizes]) -> RewriteOptions:
    """The options without the shapes of these blobs."""
    given, profile = given_shapes(options), profile_of(options)
    return replace(
        options,
        shapes=_without(names, given),
        min_shapes=_without(names, profile.min),
        opt_shapes=_without(names, profile.opt),
        max_shapes=_without(names, profile.max),
    )


def _stated(model: Model) -> Sequence[tuple[str, tuple[Layer, Sizes]]]:
    """The inputs whose shapes the file states."""
    found = []
    for layer in model.layers if model.framework == "caffe" else ():
        shapes = layer.message.input_param.shape if layer.type == "Input" else ()
        for index, top in enumerate(layer.tops if len(shapes) else ()):
            found.append((top, (layer, tuple(shapes[min(index, len(shapes) - 1)].dim))))
    return found


def _without(names: Mapping[str, Sizes], sizes: Mapping[str, Sizes]) -> dict[str, Sizes]:
    return {name: shape for name, shape in sizes.items() if name not in names}


def _told(error: ConversionError) -> str:
    place = [error.origin.subject] if error.origin else []
    place += [error.blob] if error.blob else []
    return Worded("{}: {}", ", ".join(place), error.problem) if place else error.problem


def _unsuited(layer: Layer, stated: Sizes, name: str, shape: Sizes, because: str) -> ConversionError:
    own = Option("shapes", {name: stated})
    has_other_axes = len(shape) != len(stated)
    return ShapeError(
        f"the shape given is {shape}, but the file states {stated}",
        origin=layer.origin,
        blob=f'top "{name}"',
        because=because,
        fix=Worded("give {} axes, as in {}", len(stated), own)
        if has_other_axes
        else Worded("give the size of the file, {}", own),
    )
