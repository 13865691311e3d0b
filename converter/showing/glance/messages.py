"""Messages of protobuf that are read in place: only the fields that are asked for, even in a file of gigabytes.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wire import Buffer, Field, Wire, fields, signed, varints
from prototrt.caffe_proto.text.scalars import text_from_bytes


@dataclass(frozen=True, slots=True)
class Message:
    """The message in ``buffer[start:end]``. Its methods raise ``WireError`` where that is not a message."""

    buffer: Buffer
    start: int
    end: int

    @classmethod
    def whole(cls, buffer: Buffer) -> Message:
        """The message that fills the buffer."""
        return cls(buffer, 0, len(buffer))

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.end - self.start

    def each(self, number: int) -> Iterator[Message]:
        """The fields of this number, as messages."""
        for item in self._of(number):
            if item.wire is Wire.BYTES:
                yield Message(self.buffer, item.start, item.end)

    def one(self, number: int) -> Message:
        """The last field of this number, as protobuf reads it; an empty message if there is none."""
        return ([*self.each(number)] or [Message(self.buffer, self.end, self.end)])[-1]

    def texts(self, number: int) -> list[str]:
        """The fields of this number, as texts."""
        return [text_from_bytes(self.buffer[each.start : each.end]) for each in self.each(number)]

    def text(self, number: int) -> str:
        """The last field of this number, as text; empty if there is none."""
        return (self.texts(number) or [""])[-1]

    def numbers(self, number: int) -> list[int]:
        """The fields of this number, as signed integers, packed or not."""
        result: list[int] = []
        for item in self._of(number):
            if item.wire is Wire.VARINT:
                result.append(signed(item.value))
            elif item.wire is Wire.BYTES:
                result += map(signed, varints(self.buffer, item.start, item.end))
        return result

    def _of(self, number: int) -> Iterator[Field]:
        return (item for item in fields(self.buffer, self.start, self.end) if item.number == number)
