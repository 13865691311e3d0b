"""Protobuf's binary form, read and written without messages: a file is walked in place, and no payload is copied."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from mmap import mmap
from typing import NamedTuple

Buffer = mmap | bytes

_DEEPEST_GROUP = 32


class Wire(IntEnum):
    """The wire types of protobuf: how a field is stored."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    GROUP = 3
    GROUP_END = 4
    FIXED32 = 5


class Field(NamedTuple):
    """One field of a message. Its payload is ``buffer[start:end]``; a VARINT has a ``value``."""

    number: int
    wire: Wire
    start: int
    end: int
    value: int


class WireError(Exception):
    """The bytes at ``offset`` are not the binary form of a message."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.offset = offset
        self.problem = problem


class CutShortError(WireError):
    """A field reaches past ``end``, the end of the message around it."""

    def __init__(self, offset: int, missing: int, end: int) -> None:
        super().__init__(offset, f"the field at byte {offset} is {missing} bytes longer than what holds it")
        self.missing = missing
        self.end = end


def fields(buffer: Buffer, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in ``buffer[start:end]``. Groups are skipped."""
    position = start
    while position < end:
        field = _field(buffer, position, end)
        position = field.end
        if field.wire is Wire.GROUP:
            position = _end_of_group(buffer, field, end)
        elif field.wire is Wire.GROUP_END:
            raise WireError(field.start, f"the group that ends before byte {field.start} has no start")
        else:
            yield field


def leading_fields(head: bytes) -> Iterator[Field]:
    """The fields at the beginning of a message, of which ``head`` is the first part. The last field may be cut.

    Stops at bytes that are not a field, and at a group.
    """
    position = 0
    while position < len(head):
        try:
            field = _frame(head, position, len(head))
        except WireError:
            return
        if field.wire in (Wire.GROUP, Wire.GROUP_END):
            return
        position = field.end
        yield field._replace(end=min(field.end, len(head)))


def _field(buffer: Buffer, position: int, end: int) -> Field:
    field = _frame(buffer, position, end)
    if field.end > end:
        raise CutShortError(position, field.end - end, end)
    return field


def _frame(buffer: Buffer, position: int, end: int) -> Field:
    """The field at ``position``, which may reach beyond ``end``."""
    key, start = varint(buffer, position, end)
    number, kind = key >> 3, key & 7
    if not 0 < number < 1 << 29 or kind > Wire.FIXED32:
        raise WireError(position, f"byte {position} is not the start of a field")
    wire = Wire(kind)
    value, stop = 0, start
    if wire is Wire.VARINT:
        value, stop = varint(buffer, start, end)
    elif wire is Wire.BYTES:
        length, start = varint(buffer, start, end)
        stop = start + length
    elif wire in (Wire.FIXED32, Wire.FIXED64):
        stop = start + (4 if wire is Wire.FIXED32 else 8)
    return Field(number, wire, start, stop, value)


def _end_of_group(buffer: Buffer, opening: Field, end: int) -> int:
    """The offset at which the group that begins with ``opening`` ends."""
    opened = [opening.number]
    position = opening.end
    while opened:
        if position >= end or len(opened) > _DEEPEST_GROUP:
            raise WireError(opening.start, f"the group before byte {opening.start} does not end")
        field = _field(buffer, position, end)
        position = field.end
        if field.wire is Wire.GROUP:
            opened.append(field.number)
        elif field.wire is Wire.GROUP_END and field.number != opened.pop():
            raise WireError(field.start, f"the group that ends before byte {field.start} has no start")
    return position


def varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """The number at ``position``, and the offset after it."""
    value = shift = 0
    first = position
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, position
        shift += 7
        if shift > 63:
            raise WireError(first, f"the number at byte {first} has more than ten bytes")
    raise CutShortError(first, 1, end)


def varints(buffer: Buffer, start: int, end: int) -> Iterator[int]:
    """The numbers of a packed field."""
    while start < end:
        value, start = varint(buffer, start, end)
        yield value


def signed(value: int) -> int:
    """A VARINT as an int64."""
    return value - (1 << 64) if value >> 63 else value


def field_head(number: int, size: int) -> bytes:
    """The header of a field of ``size`` bytes: its number, the wire type, the length."""
    return varint_bytes(number << 3 | Wire.BYTES) + varint_bytes(size)


def varint_bytes(number: int) -> bytes:
    """Seven bits per byte, the lowest first; the top bit is set if more bytes follow."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
