"""The integers among the parameters of a layer, including those in a fork's unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prototrt.caffe_proto.schema import Message, is_repeated
from prototrt.caffe_proto.text.fields import FieldPath
from prototrt.caffe_proto.text.scalars import RANGES
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


def numbers_of_fields(entry: LayerEntry) -> dict[FieldPath, list[int]]:
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
