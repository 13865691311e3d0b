"""The net after the layers that cannot be converted, as a net of its own; those layers are computed between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    reached = reach(model, replace(options, outputs=None))
    finals = [name for name in reached.model.outputs if name not in inputs_of(reached.model)]
    left = [layer for layer in needed_layers(reached.model, finals) if layer not in reached.expanded]
    between = _missing_layers(reached, left)
    rest = [layer for layer in left if layer not in between]
    warnings = [
        f"{file}: between the two parts, {layer.origin.subject} makes {_names(layer.tops)} of {_names(layer.bottoms)}"
        for layer in between
    ]
    if not rest:
        return Remainder("", [*warnings, f"{file}: not written: no other layer comes after these"])
    _refuse(model, rest, reached)
    write = _prototxt if model.framework == "caffe" else _predict_net
    made = {top for layer in rest for top in layer.tops}
    read = dict.fromkeys(bottom for layer in rest for bottom in layer.bottoms if bottom not in made)
    text, open_inputs = write(reached, rest, [*read])
    warnings += _shape_remarks(reached, open_inputs, file)
    warnings += [
        f"{file}: {layer.origin.subject} is without its fields {listed([*layer.unknown])}"
        for layer in rest
        if layer.unknown
    ]
    return Remainder(text, warnings)


def _missing_layers(reached: Reach, left: Sequence[Layer]) -> Sequence[Layer]:
    """The layers that the user computes: they read what the first part makes, or what others of them make."""
    between: dict[Layer, None] = {}
    available = {*reached.shapes}
    for layer in left:
        if reached.shapes.keys() >= {*layer.bottoms} or (
            available.issuperset(layer.bottoms) and layer in reached.blocked
        ):
            between[layer] = None
            available.update(layer.tops)
    return [*between]


def _shape_remarks(reached: Reach, inputs: Sequence[str], file: str) -> Iterator[str]:
    """The options for shapes that the remainder does not state."""
    shapes = {name: shape for name in inputs if (shape := _fixed_shape(name, reached)) is not None}
    open_names = [name for name in inputs if name not in shapes]
    if shapes:
        yield Worded("{}: give {}", file, Option("shapes", shapes))
    if open_names:
        yield Worded("{}: give {} by {}", file, _names(open_names), Option("shapes"))


def _prototxt(reached: Reach, rest: Sequence[Layer], read: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The rest of a Caffe net, and the inputs whose shape it does not state."""
    inputs = [_input(name, reached) for name in read]
    made = {top for layer in rest for top in layer.tops}
    marks = [pair.comment for pair in reached.model.recurrences if pair.output in made]
    text = net_text(reached.model.name, [(each, None) for each in (*inputs, *map(_message, rest))], marks)
    return text, [message.top[0] for message in inputs if not message.input_param.shape]


def _predict_net(reached: Reach, rest: Sequence[Layer], read: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The rest of a Caffe2 net, and the inputs that its init net does not fill: a predict net states no shapes."""
    from prototrt.caffe_proto.caffe2.operators import Operator
    from prototrt.caffe_proto.caffe2.predict_text import filled_blobs, predict_text

    operators = [layer for layer in rest if isinstance(layer, Operator)]
    made = {top for operator in operators for top in operator.tops}
    outputs = [name for name in reached.model.outputs if name in made]
    filled = filled_blobs(reached.model)
    text = predict_text(reached.model.name, operators, read, outputs)
    return text, [name for name in read if name not in filled]


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
    shape = _fixed_shape(name, reached)
    if shape is not None:
        message.input_param.shape.add().dim.extend(shape)
    return message


def _fixed_shape(name: str, reached: Reach) -> Sequence[int] | None:
    """The shape of a blob, if it is known and does not vary."""
    shape = reached.shapes.get(name, ())
    sizes = [size for size in shape if isinstance(size, int)]
    return sizes if name in reached.shapes and len(sizes) == len(shape) else None


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
