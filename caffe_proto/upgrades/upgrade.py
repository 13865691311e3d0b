"""From the older forms of a net to layers of the current form, each with its line in the user's file.

``layers { type: CONVOLUTION }`` (V1) becomes ``layer { type: "Convolution" }``, and ``input`` becomes an
Input layer. The form before V1 is first turned into V1 (upgrade_v0.py).

Source: caffe ``src/caffe/util/upgrade_proto.cpp``: ``UpgradeV1Net``, ``UpgradeNetDataTransformation`` and
``UpgradeNetInput``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototrt.caffe_proto.common.errors import NetError, Origin, raise_all
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.schema import Message, enum_name, message_class
from prototrt.caffe_proto.text.findings import Finding
from prototrt.caffe_proto.text.prototxt import ParsedNet
from prototrt.caffe_proto.upgrades.upgrade_v0 import PlacedLayer, v1_from_v0
from prototrt.caffe_proto.v1_types import type_of_fork, type_of_v1

_TRANSFORMED_DATA = {
    "DATA": "data_param",
    "IMAGE_DATA": "image_data_param",
    "WINDOW_DATA": "window_data_param",
}
_LATER_TYPES = {
    *("BatchNorm", "BatchReindex", "Bias", "Clip", "Embed", "Filter", "Input", "Log", "Parameter", "Python"),
    *("Reduction", "Reshape", "Scale", "Swish", "Tile"),
}
"""Types that Caffe got after V1. One more, Crop, was in V1 in forks."""
_LAST_FIELD = 148
"""Of LayerParameter: further fields are forks', which also have them in V1."""
_TRANSFORM_FIELDS = ("scale", "mean_file", "crop_size", "mirror")


@dataclass(frozen=True, slots=True, eq=False)
class LayerEntry:
    """One layer in the current form, and its line in the file.

    ``findings`` are the mistakes in its text, ``warnings`` say what the upgrade left out.
    """

    message: Message
    line: int
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()

    def origin(self, file: str) -> Origin:
        """The place of the layer, for messages."""
        return Origin(file, self.line, self.message.name, self.message.type or "no type")


def upgraded_layers(net: ParsedNet, file: str) -> list[LayerEntry]:
    """All layers of a file in the current form. The inputs come first.

    Raises ``NetError`` for a net that mixes forms, for layers of the old form with what Caffe only has in the new one,
    and for shapes of inputs that Caffe would not read.
    """
    message, lines = net.message, net.lines
    if message.layer and message.layers:
        new, old = lines["layer"][0], lines["layers"][0]
        raise NetError(
            f"the net has layer (line {new}) and layers (line {old}), expected one of them",
            where=f"{file}:{max(new, old)}",
            because="they are the new and the old form, which Caffe does not mix",
            fix="write all of them as layer, with their types as strings",
        )
    findings: dict[int, list[Finding]] = {}
    for finding in net.findings:
        if finding.layer is not None:
            findings.setdefault(finding.layer.index, []).append(finding)
    plain = zip(message.layer, lines.get("layer", ()), strict=True)
    layers = _layers_from_v1(net, file) if message.layers else enumerate(LayerEntry(*each) for each in plain)
    sources = [
        replace(entry, findings=tuple(findings[index])) if index in findings else entry
        for index, entry in layers
    ]
    return _inputs(net, file, sources) + sources


def _layers_from_v1(net: ParsedNet, file: str) -> Iterator[tuple[int, LayerEntry]]:
    """The layers of an old net, each with its index in the field ``layers``. Padding layers are gone."""
    raise_all([*_too_new(net, file)])
    placed = [
        PlacedLayer(layer, line, index)
        for index, (layer, line) in enumerate(zip(net.message.layers, net.lines["layers"], strict=True))
    ]
    for old in v1_from_v0(placed, file):
        layer = _layer_from_v1(old.layer)
        if old.index in net.fork_types:
            layer.type = type_of_fork(net.fork_types[old.index])
        if old.index in net.newer:
            layer.MergeFrom(net.newer[old.index])
        yield old.index, LayerEntry(layer, old.line, warnings=old.warnings)


def _too_new(net: ParsedNet, file: str) -> Iterator[NetError]:
    """An error for each layer that states a type or a field of Caffe's which V1 lacks: Caffe's parser refuses them."""
    for index, (layer, line) in enumerate(zip(net.message.layers, net.lines["layers"], strict=True)):
        word = net.fork_types.get(index, "")
        kind = type_of_fork(word) if word else type_of_v1(layer.type)
        fields = net.newer[index].ListFields() if index in net.newer else []
        problems = [f'"{field.name}" is a field' for field, _ in fields if field.number <= _LAST_FIELD]
        if kind in _LATER_TYPES:
            problems.insert(0, f"{word} is a type")
        if problems:
            yield NetError(
                f"{problems[0]} that layers, the old form, does not have",
                origin=Origin(file, line, layer.name, kind or "no type"),
                fix=f'write all layers of the net as layer, as in layer {{ type: "{kind}" }}',
            )


def _layer_from_v1(old: Message) -> Message:
    """One V1 layer as a ``LayerParameter``. Source: ``UpgradeV1LayerParameter``."""
    layer = message_class("LayerParameter")()
    _move_transformation(old)
    for field, value in old.ListFields():
        if field.name in ("param", "blob_share_mode", "blobs_lr", "weight_decay", "layer"):
            continue
        if field.name == "type":
            layer.type = type_of_v1(value)
        elif field.message_type is None and not hasattr(value, "extend"):
            setattr(layer, field.name, value)
        else:
            getattr(layer, field.name).MergeFrom(value)
    _merge_param_specs(old, layer)
    return layer


def _merge_param_specs(old: Message, layer: Message) -> None:
    """Make a ParamSpec for each blob. V1 kept their fields in four lists, which may differ in length."""
    lists = {
        "name": old.param,
        "share_mode": old.blob_share_mode,
        "lr_mult": old.blobs_lr,
        "decay_mult": old.weight_decay,
    }
    for _ in range(max(map(len, lists.values()))):
        layer.param.add()
    for field, values in lists.items():
        for spec, value in zip(layer.param, values, strict=False):
            setattr(spec, field, value)


def _move_transformation(old: Message) -> None:
    """Move scale, mean, crop and mirror to ``transform_param``; the oldest data layers had them as their own fields."""
    field = _TRANSFORMED_DATA.get(enum_name("V1LayerParameter.LayerType", old.type) or "")
    if field is None or not old.HasField(field):
        return
    data = getattr(old, field)
    for name in _TRANSFORM_FIELDS:
        if data.HasField(name):
            setattr(old.transform_param, name, getattr(data, name))
            data.ClearField(name)


def _inputs(net: ParsedNet, file: str, layers: Sequence[LayerEntry]) -> list[LayerEntry]:
    """An Input layer for each ``input``: with its ``input_shape``, with four ``input_dim``, or without a shape.

    Caffe ignores an input without a shape. Here it becomes an Input layer, unless another layer makes the blob.
    Raises ``NetError``.
    """
    message = net.message
    lines = net.lines.get("input", [])
    if not lines:
        return []
    shapes = _input_shapes(message, f"{file}:{lines[0]}")
    taken = {entry.message.name for entry in layers}
    made = {blob for entry in layers for blob in entry.message.top if blob not in entry.message.bottom}
    entries = []
    for index, (blob, line) in enumerate(zip(message.input, lines, strict=True)):
        if not shapes and blob in made:
            continue
        layer = message_class("LayerParameter")()
        layer.name = f"{blob}_input" if blob in taken else blob
        layer.type = "Input"
        layer.top.append(blob)
        if shapes:
            layer.input_param.shape.add().dim.extend(shapes[index])
        entries.append(LayerEntry(layer, line))
    return entries


def _input_shapes(message: Message, where: str) -> list[list[int]]:
    """The shape of each input; empty if the net states none. Raises ``NetError`` unless there is one for each."""
    count, dims = len(message.input), list(message.input_dim)
    if message.input_shape:
        if len(message.input_shape) != count:
            problem = f"found {len(message.input_shape)} input_shape, expected {count}, one for each input"
            because = "Caffe silently ignores the rest"
            raise NetError(problem, where=where, because=because, fix="give each input its input_shape")
        return [list(shape.dim) for shape in message.input_shape]
    if dims and len(dims) != 4 * count:
        raise NetError(
            f"found {len(dims)} input_dim, expected {4 * count}, four for each input",
            where=where,
            because="Caffe silently ignores the rest" if len(dims) > 4 * count else None,
            fix="give four input_dim for each input, or an input_shape for another number of axes",
        )
    return [dims[4 * index : 4 * index + 4] for index in range(count)] if dims else []
