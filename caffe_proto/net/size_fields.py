"""The integers among the parameters of a layer, including those in a fork's unknown fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.descriptor import FieldDescriptor

from prototrt.caffe_proto.schema import Message, is_repeated
from prototrt.caffe_proto.text.prototxt import FieldPath
from prototrt.caffe_proto.text.tokens import Token, TokenKind
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry

_WHOLE = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
}


def numbers_of_fields(entry: LayerEntry) -> dict[FieldPath, list[int]]:
    """The integers by the path of field names: ``("data_param", "batch_size")``."""
    numbers: dict[FieldPath, list[int]] = {}
    for path, number in _numbers_at(entry.message, ()):
        numbers.setdefault(path, []).append(number)
    for finding in entry.findings:
        if finding.is_unknown and finding.field is not None:
            for path, number in _written(finding.value, (*finding.path[1:], finding.field)):
                numbers.setdefault(path, []).append(number)
    return numbers


def _numbers_at(message: Message, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    for field, value in message.ListFields():
        inner = (*path, str(field.name))
        each = value if is_repeated(field) else (value,)
        if field.message_type is not None:
            for part in each:
                yield from _numbers_at(part, inner)
        elif field.cpp_type in _WHOLE:
            yield from ((inner, int(number)) for number in each)


def _written(tokens: Sequence[Token], path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    """The numbers in the text of one field: a value, a list, or a message in brackets."""
    messages: list[FieldPath] = []
    name = path
    for token in _without_signs(tokens):
        if token.text in ("{", "<"):
            messages.append(name)
        elif token.text in ("}", ">"):
            messages.pop()
        elif token.kind is TokenKind.WORD and messages:
            name = (*messages[-1], token.text)
        elif token.kind is TokenKind.INTEGER and token.text.isdecimal():
            yield name, int(token.text)


def _without_signs(tokens: Iterable[Token]) -> Iterator[Token]:
    return (token for token in tokens if token.text not in (":", ",", ";", "[", "]"))
