"""Messages of protobuf, read in place: of a file of gigabytes only the parts that are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prototrt.caffe_proto.text.scalars import text_from_bytes
from prototrt.caffe_proto.weights.wire import Buffer, Field, Wire, fields, signed, varints


@dataclass(frozen=True, slots=True)
class Message:
    """``buffer[start:end]``. Raises ``WireError`` where that is no message."""

    buffer: Buffer
    start: int
    end: int

    @classmethod
    def whole(cls, buffer: Buffer) -> Message:
        return cls(buffer, 0, len(buffer))

    @property
    def size(self) -> int:
        return self.end - self.start

    def each(self, number: int) -> Iterator[Message]:
        """The fields of this number, as messages."""
        for item in self._of(number):
            if item.wire is Wire.BYTES:
                yield Message(self.buffer, item.start, item.end)

    def one(self, number: int) -> Message:
        """The last of them, as protobuf reads it; an empty message if there is none."""
        return ([*self.each(number)] or [Message(self.buffer, self.end, self.end)])[-1]

    def texts(self, number: int) -> list[str]:
        return [text_from_bytes(self.buffer[each.start : each.end]) for each in self.each(number)]

    def text(self, number: int) -> str:
        """The last of them, or an empty text."""
        return (self.texts(number) or [""])[-1]

    def numbers(self, number: int) -> list[int]:
        """Whole numbers, packed or not."""
        found: list[int] = []
        for item in self._of(number):
            if item.wire is Wire.VARINT:
                found.append(signed(item.value))
            elif item.wire is Wire.BYTES:
                found += map(signed, varints(self.buffer, item.start, item.end))
        return found

    def _of(self, number: int) -> Iterator[Field]:
        return (item for item in fields(self.buffer, self.start, self.end) if item.number == number)
