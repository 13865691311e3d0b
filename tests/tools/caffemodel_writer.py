"""Write a caffemodel in the present form, one layer after the other: for tests, which need weights of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.wire_writer import field_head, varint_bytes
from prototrt.converter.writing.files import atomic_write

# Numbers of NetParameter, LayerParameter, BlobProto and BlobShape in caffe.proto.
_LAYER, _NAME, _TYPE, _BLOBS, _DATA, _SHAPE, _DIM = 100, 1, 2, 7, 5, 7, 1


def write(
    path: str | os.PathLike[str],
    layers: Mapping[str, Sequence[Array]],
    types: Mapping[str, str] | None = None,
) -> None:
    """Write arrays as float32 blobs. ``types`` gives the layer types, which Caffe does not look at.

    The file appears under its name only when it is whole.
    """
    with atomic_write(path) as stream:
        for name, arrays in layers.items():
            _write_layer(stream, name, (types or {}).get(name, ""), arrays)


def _write_layer(stream: BinaryIO, name: str, kind: str, arrays: Sequence[Array]) -> None:
    head = _bytes_field(_NAME, name.encode()) + (_bytes_field(_TYPE, kind.encode()) if kind else b"")
    frames = [_blob_frame(array) for array in arrays]
    size = len(head) + sum(len(frame) + 4 * array.size for frame, array in zip(frames, arrays, strict=True))
    stream.write(field_head(_LAYER, size) + head)
    for frame, array in zip(frames, arrays, strict=True):
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
