"""Pieces of protobuf's binary form, for writing large fields without building a message."""

from __future__ import annotations

from prototrt.caffe_proto.common.wire import Wire


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
