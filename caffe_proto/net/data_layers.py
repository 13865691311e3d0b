"""The inputs that replace a data layer in a deployed net."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.layer_types import Role, layer_type
from prototrt.caffe_proto.schema import Message, is_layer_type, is_repeated
from prototrt.caffe_proto.text.fields import FieldPath
from prototrt.caffe_proto.text.findings import Finding, OpenLayer
from prototrt.caffe_proto.text.scalars import RANGES
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry

PartialShape = tuple[int | None, ...]

# The fields that state one size; the first stated one counts. Forks have their own names.
_BATCH = ("batch_size", "batchsize", "batch")
_CROP = ("crop_size", "cropsize")
_HEIGHT = (*_CROP, "crop_height", "crop_h", "resize_param.height", "new_height", "resize_height", "height")
_WIDTH = (*_CROP, "crop_width", "crop_w", "resize_param.width", "new_width", "resize_width", "width")
_LABELS = ("label_dim",)
_SHAPES = ("dim", "shape.dim", "input_shape.dim")
_PERHAPS_LABELS = re.compile("label|(?<![a-z])gt|gt(?![a-z])")
""""gt" is short for ground truth, except inside of a word, as in length."""
FILLED_ALIKE = ("constant", "bilinear")
"""Fillers that do not draw random numbers."""


def is_source(entry: LayerEntry) -> bool:
    """Whether the layer only brings data.

    Its type says so, it draws random numbers on every call, or Caffe does not know the type and it has no bottoms.
    """
    layer, facts = entry.message, layer_type(entry.message.type)
    if layer.type == "DummyData":
        return _is_drawn(layer)
    if facts.role is not Role.COMPUTES:
        return facts.role is Role.DATA
    return not layer.bottom and bool(layer.top) and (facts.is_code or not is_layer_type(layer.type))


def _is_drawn(layer: Message) -> bool:
    fillers, tops = layer.dummy_data_param.data_filler, layer.top
    if len(fillers) not in (1, len(tops)):
        return False
    drawn = [fillers[index % len(fillers)].type not in FILLED_ALIKE for index in range(len(tops))]
    return any(drawn) and all(
        is_drawn or is_label_by_name(top) for is_drawn, top in zip(drawn, tops, strict=True)
    )


def label_tops(entry: LayerEntry) -> list[str]:
    """The tops that hold labels. Where the type does not say which, the names of the tops decide."""
    facts, tops = layer_type(entry.message.type), entry.message.top
    if facts.role is Role.DATA and facts.labels_from is not None:
        return list(tops[facts.labels_from : facts.labels_until])
    return [top for top in tops[facts.labels_from :] if is_label_by_name(top)]


def is_label_by_name(blob: str) -> bool:
    """Whether a blob is called as labels usually are."""
    return _PERHAPS_LABELS.search(blob.lower()) is not None


def shape_from_fields(entry: LayerEntry, top: int, *, has_frames: bool = False) -> PartialShape | None:
    """The shape of a top, with None for sizes that only the data determine; None if nothing is known.

    With ``has_frames`` the first top holds videos, (N, C, L, H, W), as in C3D.
    Source: the ``DataLayerSetUp`` of caffe's ``src/caffe/layers/*_data_layer.cpp``.
    """
    layer, facts = entry.message, layer_type(entry.message.type)
    if layer.type == "DummyData":
        return _drawn_shape(layer.dummy_data_param, top)
    field_numbers = _numbers_of_fields(entry)
    whole = next((numbers for path, numbers in field_numbers.items() if _is_named(path, _SHAPES)), None)
    if top == 0 and whole:
        return tuple(whole)
    if facts.labels_from is None or not field_numbers:
        return None
    batch = _first(field_numbers, _BATCH)
    if top > 0:
        labels = _first(field_numbers, _LABELS)
        return (batch, *([labels] if labels else [])) if facts.role is Role.DATA else None
    channels, size = (
        _channels(layer, field_numbers),
        (_first(field_numbers, _HEIGHT), _first(field_numbers, _WIDTH)),
    )
    if has_frames:
        of_videos = 3 if layer.type == "VideoData" else None
        return (batch, channels or of_videos, _first(field_numbers, ("new_length",)), *size)
    return (batch, channels, *size)


def first_size(entry: LayerEntry) -> PartialShape | None:
    """The size of the first axis, if the file says no more of the tops, not even how many axes they have."""
    batch = _first(_numbers_of_fields(entry), _BATCH)
    is_open = layer_type(entry.message.type).labels_from is None
    return (batch,) if is_open and batch else None


def wrong_sizes(entry: LayerEntry, file: str) -> tuple[Finding, ...]:
    """The mistakes in fields that state a size: the shape lacks what they were to say."""
    return (*_misread_sizes(entry), *_zeros(entry, file))


def _misread_sizes(entry: LayerEntry) -> tuple[Finding, ...]:
    fields = {name.rpartition(".")[2] for name in (*_BATCH, *_HEIGHT, *_WIDTH, *_SHAPES, "channels")}
    return tuple(finding for finding in entry.findings if finding.field in fields and not finding.is_unknown)


def _zeros(entry: LayerEntry, file: str) -> Iterator[Finding]:
    """Where Caffe needs a size, and does not take a 0 for one that is not stated."""
    layer = OpenLayer(entry.message, "layer", 0, entry.line)
    for path, numbers in _numbers_of_fields(entry).items():
        name = path[-1]
        is_needed = name in _BATCH or path[:-1] == ("memory_data_param",)
        if is_needed and not numbers[-1] and layer_type(entry.message.type).role is Role.DATA:
            yield Finding(
                file,
                entry.line,
                layer,
                ("layer", *path[:-1]),
                f"{name} is 0, expected at least 1",
                fix=f"write such a size, or leave {name} out",
                family=ShapeError,
                field=name,
            )


def _drawn_shape(param: Message, top: int) -> PartialShape | None:
    """The shape of a top of DummyData, in the new or in the old form, stated once or for each top."""
    if param.shape:
        return tuple(param.shape[min(top, len(param.shape) - 1)].dim)
    legacy = (param.num, param.channels, param.height, param.width)
    return tuple(sizes[min(top, len(sizes) - 1)] for sizes in legacy) if all(legacy) else None


def _first(field_numbers: Mapping[FieldPath, list[int]], names: Iterable[str]) -> int | None:
    """The size in the first of these fields that states one. In Caffe, 0 means that none is stated."""
    for name in names:
        for path, numbers in field_numbers.items():
            if _is_named(path, (name,)) and numbers[-1]:
                return numbers[-1]
    return None


def _is_named(path: FieldPath, names: Iterable[str]) -> bool:
    """Whether a path leads from one of the layer's messages to one of these fields."""
    return ".".join(path[1:]) in names


def _channels(layer: Message, field_numbers: Mapping[FieldPath, list[int]]) -> int | None:
    """The channels. A layer of an unknown type may stack several images: only its numbers are taken."""
    channels = _first(field_numbers, ("channels",))
    if channels is not None:
        return channels
    transform, images = layer.transform_param, layer.image_data_param
    is_data = layer_type(layer.type).role is Role.DATA
    if layer.type == "WindowData" or (
        is_data and (transform.force_color or layer.data_param.force_encoded_color)
    ):
        return 3
    if layer.type == "ImageData" or (is_data and layer.HasField("image_data_param")):
        return 3 if images.is_color else 1
    if is_data and transform.force_gray:
        return 1
    return len(transform.mean_value) if len(transform.mean_value) > 1 else None


AS_IN_TRAINING = "transformed, as in training"


def transformation(layer: Message) -> str | None:
    """The transformations of the data layer, which the data for the Input that replaces it still need."""
    transform = layer.transform_param
    steps = []
    if transform.mean_file:
        steps.append(f"minus the mean in {transform.mean_file}")
    if transform.mean_value:
        steps.append("minus " + ", ".join(f"{value:g}" for value in transform.mean_value))
    if transform.HasField("scale") and transform.scale != 1:
        steps.append(f"times {transform.scale:g}")
    return f'feed "{layer.top[0]}" {AS_IN_TRAINING}: {", then ".join(steps)}' if steps else None


def _numbers_of_fields(entry: LayerEntry) -> dict[FieldPath, list[int]]:
    """The integers by the path of field names: ``("data_param", "batch_size")``."""
    numbers: dict[FieldPath, list[int]] = {}
    for path, number in _numbers_at(entry.message, ()):
        numbers.setdefault(path, []).append(number)
    for finding in entry.findings:
        if finding.is_unknown and finding.field is not None:
            for path, number in _integers(finding.readable_value, (*finding.path[1:], finding.field)):
                numbers.setdefault(path, []).append(number)
    return numbers


def _numbers_at(message: Message, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    for field, value in message.ListFields():
        inner = (*path, str(field.name))
        each = value if is_repeated(field) else (value,)
        if field.message_type is not None:
            for part in each:
                yield from _numbers_at(part, inner)
        elif field.cpp_type in RANGES:
            yield from ((inner, int(number)) for number in each)


def _integers(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    """The integers in an unknown field: in a value, a list, or a message."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _integers(inner, (*path, name))
    elif isinstance(value, list):
        for each in value:
            yield from _integers(each, path)
    elif type(value) is int:
        yield path, value
