"""Examples of the shape of an input, for a user who must state one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType

from prototrt.caffe_proto.common.errors import MissingShapesError
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.layer_types import layer_type
from prototrt.caffe_proto.model import Layer, Model

_STEPS = "TxNxI"
_IMAGES = "NxCxHxW"
_OVER_VOLUMES = {_IMAGES: "NxCxLxHxW", "Rx5": "Rx3"}
"""Shapes where windows slide over volumes: a rect has an item, and the beginning and the end of a stretch of time."""
_STATES = "1xNxH"
_IMAGE_FACTS = "im_info"
"""What Python layers of Faster R-CNN call the height, width and scale of the image."""


def shape_option(
    blob: str, layers: Sequence[Layer], sizes: Mapping[str, Sequence[int | None]] = MappingProxyType({})
) -> Option:
    """The option that states the shape, with letters for the axes that the readers of the blob need."""
    return Option("shapes", {blob: example_shape(blob, layers, sizes)})


def example_shape(
    blob: str, layers: Sequence[Layer], sizes: Mapping[str, Sequence[int | None]] = MappingProxyType({})
) -> list[int | str]:
    """A letter for each axis that the readers of the blob need, or its size if that is known."""
    letters = [int(size) if size.isdecimal() else size for size in _axes(blob, layers).split("x")]
    dims = sizes.get(blob, ())
    if len(dims) != len(letters):
        dims = dims[:1]
    return [letter if size is None else size for letter, size in zip_longest(letters, dims)]


def missing_shapes_error(
    model: Model, layers: Sequence[Layer], inputs: Collection[str]
) -> MissingShapesError | None:
    """The error for all inputs without a shape in the file or among ``inputs``; None if all inputs have shapes.

    Where the file states a wrong size, that is the problem to tell.
    """
    missing = [
        (layer, index)
        for layer in layers
        if layer.type == "Input" and not (layer.message.input_param.shape or layer.problems)
        for index, top in enumerate(layer.tops)
        if top not in inputs
    ]
    if not missing:
        return None
    names = listed([f'"{layer.top_blob(index)}" (line {layer.origin.line})' for layer, index in missing])
    tops = [layer.tops[index] for layer, index in missing]
    shapes = {top: example_shape(top, layers, model.sizes) for top in tops}
    what = "inputs" if len(missing) > 1 else "input"
    problem = Worded("the file states no shape for the {} {}", what, names)
    return MissingShapesError(problem, where=model.file, because=None, shapes=shapes)


def _axes(blob: str, layers: Sequence[Layer], of_embedding: bool = False) -> str:
    """The axes that the first reader needs. The rows of an Embed are no ids for another one, even in a cycle."""
    alike = {blob}
    for place, layer in enumerate(layers):
        for index in (index for index, bottom in enumerate(layer.bottoms) if bottom in alike):
            if layer.type == "Python" and layer.bottoms[index] == _IMAGE_FACTS:
                return "1x3"
            facts = layer_type(layer.type)
            if facts.reads_ids:
                has_steps = (
                    not of_embedding and layer.tops and _axes(layer.tops[0], layers[place + 1 :], True)
                )
                return "TxN" if has_steps == _STEPS else "N"
            if facts.reads_rows:
                return {1: "NxI", 2: _STEPS}.get(layer.param.axis, _IMAGES)
            if facts.states:
                behind = len(layer.bottoms) - (facts.states if layer.param.expose_hidden else 0)
                if index >= behind:
                    return _STATES
                if index == behind - 1 and layer.message.recurrent_param.sequence_lengths:
                    return "N"
            if not facts.keeps_axes:
                example = facts.example[min(index, len(facts.example) - 1)]
                if example == _OVER_VOLUMES[_IMAGES] and _has_sizes_of_images(layer):
                    return _IMAGES
                return _OVER_VOLUMES.get(example, example) if _is_over_volumes(layers) else example
            alike.update(layer.tops)
    return _IMAGES


def _is_over_volumes(layers: Sequence[Layer]) -> bool:
    """Whether a window of the net states three sizes: no layer of images adds an axis before it."""
    return any(
        len(param.kernel_size) == 3
        for layer in layers
        for param in (layer.message.convolution_param, layer.message.pooling_param)
    )


def _has_sizes_of_images(layer: Layer) -> bool:
    """Whether a window of any number of axes, as NdConvolution has, states two sizes."""
    return layer.type.startswith("Nd") and len(layer.param.kernel_shape.dim) == 2
