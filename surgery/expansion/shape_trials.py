"""Try shapes of inputs on the layers of a net before a message proposes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    MissingBlobError,
    MissingShapesError,
    ShapeError,
    distinct,
    lacks_computed_blobs,
)
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Together, Worded
from prototrt.caffe_proto.net.shape_examples import example_shape
from prototrt.caffe_proto.net.siblings import shapes_beside
from prototrt.caffe_proto.weights import NoWeights, RandomWeights
from prototrt.surgery.building.input_sizes import profile_of, shapes_of_options
from prototrt.surgery.expansion.fitting import Letters, ShapeSearch, Sizes, search_shapes
from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.surgery.expansion.needed_layers import inputs_of
from prototrt.surgery.options import RewriteOptions

Attempt = Callable[[Model, RewriteOptions], object]
"""Expands a net; what it returns has ``errors`` where it cannot."""


@dataclass(frozen=True, slots=True)
class ShapeTrials:
    """Expands a net with other shapes of its inputs, without drawing weights."""

    model: Model
    options: RewriteOptions
    attempt: Attempt
    other_problems: Collection[str]
    """Errors of the net whatever the shapes are."""

    @classmethod
    def of(
        cls, model: Model, options: RewriteOptions, attempt: Attempt, errors: Sequence[ConversionError]
    ) -> ShapeTrials:
        if isinstance(model.weights, RandomWeights):
            model = replace(model, weights=NoWeights())
        other_problems = {error.text for error in distinct(errors) if not isinstance(error, ShapeError)}
        return cls(model, replace(options, require_weights=False), attempt, other_problems)

    def fit(self, shapes: Letters, pixels: tuple[int, int] | None = None) -> ShapeSearch:
        """Shapes that fit the layers; or the best that were found, and what is wrong with them."""
        model = self.model
        beside = shapes_beside(model.file, shapes) if pixels is None else {}
        return search_shapes(shapes, model.layers, self.misfits, pixels, model.size_hints, beside)

    def misfits(self, shapes: Mapping[str, Sizes]) -> Sequence[ConversionError]:
        """What is wrong with these shapes."""
        try:
            result = self.attempt(
                self.model, replace(self.options, shapes={**(self.options.shapes or {}), **shapes})
            )
        except ConversionError as error:
            return distinct([error])
        return [
            error
            for error in distinct(getattr(result, "errors", ()))
            if error.text not in self.other_problems
        ]


def advise_shapes(model: Model, options: RewriteOptions, attempt: Attempt, error: ConversionError) -> None:
    """Add to errors about shapes the shapes that fit the layers of the net; ``error`` may hold others."""
    if model.framework != "caffe" or options.dynamic or options.sizes or profile_of(options).names():
        return
    singles = distinct([error])
    if lacks_computed_blobs(singles):
        return
    asking = [error for error in singles if _asks(error, model)]
    trials = ShapeTrials.of(model, options, attempt, singles)
    if asking:
        search = trials.fit(_missing_shapes(asking, model))
        _advise(asking, search)
        if error not in asking and not search.errors:
            error.fix = _with_shapes(error.fix, search.best)
    elif all(isinstance(error, ShapeError) and _joins(error, model) for error in singles):
        _advise_pixels(singles[-1], _images(model, options), trials)


def _joins(error: ConversionError, model: Model) -> bool:
    """Whether bottoms of one layer that the net computes, on several ways from one image, do not fit."""
    joining = [layer for layer in model.layers if layer.origin == error.origin and len(layer.bottoms) > 1]
    return any(not {*inputs_of(model)}.issuperset(layer.bottoms) for layer in joining)


def _asks(error: ConversionError, model: Model) -> bool:
    return isinstance(error, MissingShapesError) or (
        isinstance(error, MissingBlobError) and error.bottom in model.missing
    )


def _missing_shapes(errors: Sequence[ConversionError], model: Model) -> Letters:
    """The shapes that errors ask for."""
    shapes: dict[str, Sequence[int | str]] = {}
    for error in errors:
        if isinstance(error, MissingShapesError):
            shapes |= error.shapes
        elif isinstance(error, MissingBlobError):
            shapes[error.bottom] = example_shape(error.bottom, model.layers, model.sizes)
    return shapes


def _advise(asking: Sequence[ConversionError], search: ShapeSearch) -> None:
    """Add to the fixes the shapes that fit, and what is a guess in them; or say that no usual shapes do."""
    last, tried = asking[-1], Option("shapes", search.best)
    if search.errors:
        reason = search.errors[0].text.splitlines()[0]
        last.fix = Worded("{}; no usual sizes fit: with {}, {}", last.fix, tried, reason)
        return
    for error in asking:
        others = {
            name: sizes for name, sizes in search.best.items() if len(sizes) != len(search.shapes[name])
        }
        error.fix = _with_shapes(error.fix, others) if others else error.fix
    last.fix = Worded("{}; the layers fit with {}", last.fix, tried)
    remarks = [search.source] if search.source else []
    remarks += [f"{letter} is a guess" for letter in search.free_letters()]
    if smaller := search.smallest():
        height, width, step = smaller
        steps = f" in steps of {step}" if step > 1 else ""
        remarks.append(f"smaller images fit down to {height}x{width}{steps}")
    if remarks:
        last.fix = Worded("{} ({})", last.fix, ", ".join(remarks))


def _with_shapes(part: object, fitting: Mapping[str, Sizes]) -> Any:
    """The text; its options state these shapes in place of others."""
    if isinstance(part, Worded):
        return part.with_parts(lambda each: _with_shapes(each, fitting))
    if isinstance(part, Together):
        return Together([_with_shapes(each, fitting) for each in part.each])
    if isinstance(part, Option) and part.name == "shapes" and isinstance(part.value, Mapping):
        return Option("shapes", {name: fitting.get(name, sizes) for name, sizes in part.value.items()})
    return part


def _advise_pixels(error: ConversionError, images: Mapping[str, Sizes], trials: ShapeTrials) -> None:
    """Add to the fix sizes of images that fit, if the user or the file states one size for all images."""
    pixels = {shape[2:] for shape in images.values()}
    if len(pixels) != 1:
        return
    (height, width), *_ = pixels
    search = trials.fit({name: (*shape[:2], "H", "W") for name, shape in images.items()}, (height, width))
    if not search.errors:
        advice = Worded("use sizes that fit, as in {}", Option("shapes", search.best))
        error.fix = Worded("{}; or {}", error.fix, advice) if error.fix else advice


def _images(model: Model, options: RewriteOptions) -> dict[str, Sizes]:
    """The shapes of the inputs that hold images."""
    shapes_in_file = framework_by_name(model.framework).shapes_in_file(model.layers)
    shapes = {**shapes_in_file, **shapes_of_options(options)}
    return {name: tuple(shape) for name, shape in shapes.items() if len(shape) == 4 and min(shape[2:]) > 1}
