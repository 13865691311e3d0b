"""Layers and their arrays -> a caffemodel in the current form, one layer after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from prototrt.caffe_proto.common.wire import field_head, varint_bytes
from prototrt.caffe_proto.weights import Array

# Numbers of NetParameter, LayerParameter, BlobProto and BlobShape in caffe.proto.
_NET_NAME, _LAYER, _NAME, _TYPE, _BLOBS, _DATA, _SHAPE, _DIM = 1, 100, 1, 2, 7, 5, 7, 1


class LayerBlobs(NamedTuple):
    """The blobs of a layer, in Caffe's order. Caffe finds them by the name, and does not look at the type."""

    name: str
    type: str
    arrays: Sequence[Array]


class Stream(Protocol):
    """What pieces of a file are written to."""

    def write(self, piece: bytes, /) -> object: ...


def write_caffemodel(stream: Stream, layers: Iterable[LayerBlobs], net: str = "") -> None:
    """Write arrays as float32 blobs. Of each, at most 4 MiB are copied at a time."""
    if net:
        stream.write(_bytes_field(_NET_NAME, net.encode()))
    for layer in layers:
        _write_layer(stream, layer)


def _write_layer(stream: Stream, layer: LayerBlobs) -> None:
    head = _bytes_field(_NAME, layer.name.encode())
    if layer.type:
        head += _bytes_field(_TYPE, layer.type.encode())
    frames = [_blob_frame(array) for array in layer.arrays]
    size = len(head) + sum(
        len(frame) + 4 * array.size for frame, array in zip(frames, layer.arrays, strict=True)
    )
    stream.write(field_head(_LAYER, size) + head)
    for frame, array in zip(frames, layer.arrays, strict=True):
        stream.write(frame)
        for part in _parts(array):
            stream.write(part.astype("<f4", copy=False).tobytes())


def _parts(array: Array) -> Iterator[Array]:
    """Pieces of at most 4 MiB, so that converting never doubles a large blob."""
    flat = np.ascontiguousarray(array).reshape(-1)
    for start in range(0, flat.size, 1 << 20):
        yield flat[start : start + (1 << 20)]


def _blob_frame(array: Array) -> bytes:
    """Everything of a blob, its own key and length included, up to its numbers."""
    dims = b"".join(varint_bytes(dim) for dim in array.shape)
    head = _bytes_field(_SHAPE, _bytes_field(_DIM, dims)) + field_head(_DATA, 4 * array.size)
    return field_head(_BLOBS, len(head) + 4 * array.size) + head


def _bytes_field(number: int, payload: bytes) -> bytes:
    return field_head(number, len(payload)) + payload
