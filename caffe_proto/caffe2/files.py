"""Recognizing a NetDef by its content, and reading it."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.advice import GIVE_BOTH_NETS
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import UnreadableFileError, raise_all
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wire import Wire, WireError, fields
from prototrt.caffe_proto.recognition import NETDEF, OP, OPERATOR_TYPE, OpenFile, looks_binary
from prototrt.caffe_proto.schema import Message, is_repeated
from prototrt.caffe_proto.text.prototxt import parse_net
from prototrt.caffe_proto.text.scalars import text_from_bytes, text_without_mark

_MOST = {
    "op": 40_000,
    "arg": 400_000,
    "nets": 40_000,
    "tensors": 40_000,
    "strings": 400_000,
    "input": 100_000,
    "output": 100_000,
    "external_input": 100_000,
    "external_output": 100_000,
}
"""How often fields may occur in a binary net; published nets have some thousand operators."""


@dataclass(frozen=True, slots=True)
class ReadNet:
    """A NetDef, and the lines of its operators; a binary file has none."""

    message: Message
    lines: tuple[int, ...]
    warnings: tuple[str, ...]

    def line(self, index: int) -> int:
        return self.lines[index] if self.lines else 0


def types_of(file: OpenFile, most: int) -> list[str] | None:
    """The types of the operators of a binary net; nothing else is read.

    None if there are more than ``most``, and for text and damaged files.
    """
    if file.kind is not NETDEF:
        return None
    buffer = file.content
    types: list[str] = []
    try:
        for item in fields(buffer, 0, len(buffer)):
            if item.number == OP and item.wire is Wire.BYTES:
                inner = fields(buffer, item.start, item.end)
                kind = next((each for each in inner if each.number == OPERATOR_TYPE), None)
                if kind is None or len(types) == most:
                    return None
                types.append(text_from_bytes(buffer[kind.start : kind.end]))
    except WireError:
        return None
    return types


def read_net(source: OpenFile, what: str, *, allow_unknown: bool = False) -> ReadNet:
    """Read a whole net, which must be small. ``what`` is its name in messages, as in "a predict net"."""
    file = source.name
    source.refuse_others(what, GIVE_BOTH_NETS, NETDEF)
    data = source.small(what, GIVE_BOTH_NETS)
    net = message_class("NetDef")()
    if source.kind is NETDEF or looks_binary(source.head):
        parse_binary(net, data, file)
        return ReadNet(net, (), ())
    text = text_without_mark(data)
    parsed = parse_net(text, file, net)
    if not allow_unknown:
        raise_all([finding.error() for finding in parsed.findings])
    dropped = tuple(finding.drop_warning() for finding in parsed.findings)
    return ReadNet(net, tuple(parsed.lines.get("op", ())), dropped)


def parse_binary(message: Message, data: bytes, file: str) -> None:
    """Parse the bytes into a message. Raises ``UnreadableFileError``."""
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise UnreadableFileError(
            "this is not a Caffe2 net, or it is truncated or damaged",
            where=file,
            because=f"the file has {len(data)} bytes and ends inside a field, or is empty",
            fix="get the file again",
        ) from error
    _refuse_too_many(message, file)
    if not _names_are_text(message):
        raise UnreadableFileError(
            "this is not a Caffe2 net, or it is damaged",
            where=file,
            because="a name in it is not valid UTF-8",
            fix="get the file again",
        )


def refuse_many_operators(count: int, file: str) -> None:
    """Raise ``UnreadableFileError`` for more operators than any real net has."""
    if count > _MOST["op"]:
        raise _too_many("op", file)


def _too_many(field: str, file: str) -> UnreadableFileError:
    return UnreadableFileError(
        f"the net has more than {_MOST[field]:,} fields {field}",
        where=file,
        fix="get the file again, or cut the net into several",
    )


def _refuse_too_many(message: Message, file: str) -> None:
    left, nets = dict(_MOST), [message]
    while nets:
        for field, value in nets.pop().ListFields():
            name = field.name
            if is_repeated(field) and name in left:
                left[name] -= len(value)
                if left[name] < 0:
                    raise _too_many(name, file)
            if field.type == field.TYPE_MESSAGE:
                nets += value if is_repeated(field) else (value,)


def _names_are_text(message: Message) -> bool:
    """protobuf reads a name that is not UTF-8, and fails only when the name is used."""
    try:
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                if not all(map(_names_are_text, value if is_repeated(field) else (value,))):
                    return False
            elif field.type == field.TYPE_STRING:
                texts = list(value) if is_repeated(field) else [value]
                if not all(isinstance(text, str) for text in texts):
                    return False
    except UnicodeDecodeError:
        return False
    return True
