"""The net of a model as a prototxt that Caffe reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy

from prototrt.caffe_proto.common.errors import ConversionError, NetError, raise_all
from prototrt.caffe_proto.model import Model
from prototrt.caffe_proto.net.data_layers import transformation
from prototrt.caffe_proto.net.shape_examples import missing_shapes_error
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.caffe_proto.text.comments import LayerComments, with_comments
from prototrt.caffe_proto.text.message_text import message_lines

Shapes = Mapping[str, Sequence[int]]


def deploy_text(model: Model, shapes: Shapes | None = None) -> str:
    """The net as text, without weights and without rules of inclusion.

    ``shapes`` are those of inputs; each input must have one, here or in the file. The transform_param of a
    data layer is kept in the input, where Caffe ignores it. Raises ConversionError.
    """
    return net_text(model.name, [(layer, None) for layer in deploy_layers(model, shapes)])


def deploy_layers(model: Model, shapes: Shapes | None = None) -> list[Message]:
    """The layers of ``deploy_text``, one for each layer of the model. Raises ConversionError."""
    overrides = shapes or {}
    if model.framework != "caffe":
        raise NetError(
            "this is a Caffe2 net, which has no Caffe prototxt",
            where=model.file,
            fix="give it to the other commands unchanged: a predict net has no training layers",
        )
    raise_all(list(_problems(model, overrides)))
    messages = []
    for layer in model.layers:
        message = message_class("LayerParameter")()
        message.CopyFrom(layer.message)
        for unneeded in ("blobs", "include", "exclude", "phase"):
            message.ClearField(unneeded)
        if layer.type == "Input":
            _state_shapes(message, overrides)
        messages.append(message)
    return messages


def net_text(
    name: str,
    layers: Sequence[tuple[Message, LayerComments | None]],
    head: Sequence[str] = (),
    tail: Sequence[str] = (),
) -> str:
    """A net as text: its name, its layers with their comments, and the comments before and after them."""
    own = message_lines(message_class("NetParameter")(name=name))
    parts = [_layer_lines(layer, comments) for layer, comments in layers]
    return "".join(f"{line}\n" for line in [*head, *own, *(line for part in parts for line in part), *tail])


def _layer_lines(layer: Message, comments: LayerComments | None) -> Sequence[str]:
    lines = ["layer {", *(f"  {line}" for line in message_lines(layer)), "}"]
    return lines if comments is None else [*with_comments(lines, comments)]


def transformations(model: Model) -> list[str]:
    """How to prepare the data of each input, in one line for each."""
    inputs = [layer for layer in model.layers if layer.type == "Input"]
    return [f"{layer.origin}: {text}" for layer in inputs if (text := transformation(layer.message))]


def _problems(model: Model, overrides: Shapes) -> Iterator[ConversionError]:
    yield from map(copy, model.problems)  # advice is added to them
    yield from (copy(error) for layer in model.layers for error in layer.problems)
    inputs = [layer for layer in model.layers if layer.type == "Input"]
    blobs = [blob for layer in inputs for blob in layer.tops]
    for name in overrides:
        if name not in blobs:
            problem = f'a shape is given for "{name}", which is not an input'
            fix = (
                f"name one of the inputs: {', '.join(blobs)}" if blobs else "remove it: the net has no inputs"
            )
            yield NetError(problem, where=model.file, fix=fix)
    for layer in inputs:
        count = len(layer.message.input_param.shape)
        if count > 1 and count != len(layer.tops):
            problem = f"has {count} shapes for {len(layer.tops)} tops, expected 1 or one per top"
            yield NetError(problem, origin=layer.origin, fix="state shape once, or once per top")
    if missing := missing_shapes_error(model, model.layers, overrides):
        yield missing


def _state_shapes(message: Message, overrides: Shapes) -> None:
    dims = [list(shape.dim) for shape in message.input_param.shape]
    shapes = [
        overrides.get(blob, dims[min(index, len(dims) - 1)] if dims else ())
        for index, blob in enumerate(message.top)
    ]
    del message.input_param.shape[:]
    for shape in shapes:
        message.input_param.shape.add().dim.extend(shape)
