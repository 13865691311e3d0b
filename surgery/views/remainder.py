"""The net after the layers that cannot be converted, as a prototxt of its own; those layers are computed between."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError, raise_all
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.model import input_layer
from prototrt.caffe_proto.net.deploy_text import net_text
from prototrt.caffe_proto.schema import Message
from prototrt.surgery.expansion.expand import Reach, reach
from prototrt.surgery.expansion.needed_layers import inputs_of, needed_layers
from prototrt.surgery.options import RewriteOptions


@dataclass(frozen=True, slots=True)
class Remainder:
    """The text of the net after the layers ``between``, and what its user should know; empty if nothing comes after."""

    text: str
    warnings: Sequence[str]


def remainder_of(model: Model, options: RewriteOptions, file: str) -> Remainder:
    """What comes after the layers before which the net was cut. ``file`` is the remainder's, for warnings.

    A layer that cannot be converted, and reads what the remainder makes, stays in it. Raises ``ConversionError``.
    """
    if model.framework != "caffe":
        raise NetError(
            "no remainder can be written of a Caffe2 net",
            where=model.file,
            fix=Worded("leave out {}", Option("remainder")),
        )
    reached = reach(model, replace(options, outputs=None))
    finals = [name for name in reached.model.outputs if name not in inputs_of(reached.model)]
    left = [layer for layer in needed_layers(reached.model, finals) if layer not in reached.expanded]
    between: dict[Layer, None] = {}
    available = {*reached.shapes}
    for layer in left:
        if reached.shapes.keys() >= {*layer.bottoms} or (
            available.issuperset(layer.bottoms) and layer in reached.blocked
        ):
            between[layer] = None
            available.update(layer.tops)
    rest = [layer for layer in left if layer not in between]
    warnings = [
        f"{file}: between the two parts, {layer.origin.subject} makes {_names(layer.tops)} of {_names(layer.bottoms)}"
        for layer in between
    ]
    if not rest:
        return Remainder("", [*warnings, f"{file}: not written: no other layer comes after these"])
    _refuse(model, rest, reached)
    made = {top for layer in rest for top in layer.tops}
    read = dict.fromkeys(bottom for layer in rest for bottom in layer.bottoms if bottom not in made)
    inputs = [_input(name, reached) for name in read]
    open_names = [name for name, message in zip(read, inputs, strict=True) if not message.input_param.shape]
    if open_names:
        warnings.append(Worded("{}: give {} by {}", file, _names(open_names), Option("shapes")))
    warnings += [
        f"{file}: {layer.origin.subject} is without its fields {listed([*layer.unknown])}"
        for layer in rest
        if layer.unknown
    ]
    marks = [pair.comment for pair in model.recurrences if pair.output in made]
    text = net_text(model.name, [(each, None) for each in (*inputs, *map(_message, rest))], marks)
    return Remainder(text, warnings)


def _refuse(model: Model, rest: Sequence[Layer], reached: Reach) -> None:
    """Raise for what a prototxt of the rest alone cannot hold."""
    errors = [
        NetError(
            f"the rule of this layer reads {listed([*layer.unknown])}, which Caffe's messages lack",
            origin=layer.origin,
            because="the remainder is written with Caffe's fields",
            fix=Worded("leave out {}", Option("remainder")),
        )
        for layer in rest
        if layer.unknown and layer not in reached.blocked
    ]
    made = {top for layer in rest for top in layer.tops}
    tops = {top for layer in rest for top in (*layer.tops, *layer.bottoms)}
    errors += [
        NetError(
            f'"{pair.output}" is fed back to "{pair.input}", which another part reads',
            where=model.file,
            fix=Worded("leave out {}", Option("remainder")),
        )
        for pair in model.recurrences
        if (pair.output in made) != (pair.input in tops)
    ]
    raise_all(errors)


def _input(name: str, reached: Reach) -> Message:
    """An input of the remainder, with its shape if that is known and does not vary."""
    message = input_layer(name, reached.model.file).message
    message.name = f"input {name}"  # weights go to layers by their names: blobs often have those of layers
    for layer in reached.model.layers:
        if layer.type == "Input" and name in layer.tops and layer.message.HasField("transform_param"):
            message.transform_param.CopyFrom(layer.message.transform_param)
    shape = reached.shapes.get(name)
    if shape is not None and all(isinstance(size, int) for size in shape):
        message.input_param.shape.add().dim.extend(shape)
    return message


def _message(layer: Layer) -> Message:
    """The layer as it is computed: no blob is written twice, and it is in the net of any phase."""
    message = type(layer.message)()
    message.CopyFrom(layer.message)
    for field in ("include", "exclude", "phase", "bottom", "top"):
        message.ClearField(field)
    message.bottom.extend(layer.bottoms)
    message.top.extend(layer.tops)
    return message


def _names(blobs: Sequence[str]) -> str:
    return listed([f'"{blob}"' for blob in blobs])
