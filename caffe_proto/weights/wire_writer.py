"""Pieces of protobuf's binary form, for writing large fields without building a message."""

from __future__ import annotations

from prototrt.caffe_proto.weights.wire import Wire


def field_head(number: int, size: int) -> bytes:
    """What stands before ``size`` bytes of a field: its number, the wire type, the length."""
    return varint_bytes(number << 3 | Wire.BYTES) + varint_bytes(size)


def varint_bytes(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
