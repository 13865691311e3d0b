"""Weights in numpy's ``.npz`` with keys ``LAYER/INDEX``, and what other array files share with it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError, WeightsError
from prototrt.caffe_proto.common.files import errors_for_user
from prototrt.caffe_proto.common.memory import refuse_beyond_memory
from prototrt.caffe_proto.weights import Array, StoredBlob, StoredWeights, check_count
from prototrt.caffe_proto.weights.npz import SIGNS_OF_DAMAGE, member_header

Index = dict[str, dict[int, StoredBlob]]


def weights_of_arrays(file: str, layers: Index) -> StoredWeights:
    """Blobs by layer and index. Raises for more than the memory holds: packed numbers may take a thousand times more
    than their file."""
    needed = 4 * sum(prod(blob.shape) for blobs in layers.values() for blob in blobs.values())
    refuse_beyond_memory("holding its weights", needed, file, os.path.getsize(file))
    readers = {layer: partial(_in_order, blobs) for layer, blobs in layers.items()}
    return StoredWeights(file, readers, holds_shared_once=True)


def _in_order(blobs: dict[int, StoredBlob]) -> Sequence[StoredBlob | None]:
    return tuple(map(blobs.get, range(max(blobs) + 1)))


def open_npz(file: str) -> StoredWeights:
    layers: Index = {}
    with errors_for_user(file, "an npz file"), damage_of(file, "npz"), zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            layer, index = layer_and_index(entry.filename.removesuffix(".npy"), file)
            shape = _npy_shape(archive, entry, f'{file}: layer "{layer}"', f"blob {index}")
            layers.setdefault(layer, {})[index] = StoredBlob(
                shape, False, partial(_read_npy, file, entry.filename)
            )
    if not layers:
        fix = 'save blobs in it, as in np.savez(file, **{"conv1/0": weights})'
        raise UnreadableFileError("the file holds no arrays, expected weights", where=file, fix=fix)
    return weights_of_arrays(file, layers)


def layer_and_index(key: str, file: str) -> tuple[str, int]:
    layer, slash, index = key.rpartition("/")
    if not (slash and layer and index.isascii() and index.isdigit() and len(index) < 6):
        fix = 'save each blob under its layer and its index, as in np.savez(file, **{"conv1/0": weights})'
        raise WeightsError(f'the key is "{key}", expected LAYER/INDEX', where=file, fix=fix)
    return layer, int(index)


def _npy_shape(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str, blob: str) -> tuple[int, ...]:
    """The shape in the header, if it agrees with the size: NumPy would allocate any size that a header states."""
    header = member_header(archive, entry)
    check_dtype(header.dtype, where, blob)
    check_count(header.shape, header.size, where, blob)
    return header.shape


def _read_npy(file: str, key: str) -> Array:
    with errors_for_user(file, "an npz file"), damage_of(file, "npz"), np.load(file) as archive:
        array: Array = archive[key]
    return array.astype(np.float32, copy=False)


def check_dtype(dtype: np.dtype[Any], where: str, blob: str) -> None:
    if dtype.kind not in "fiu":
        raise WeightsError(
            f"the numbers are of type {dtype}, expected floats",
            where=where,
            blob=blob,
            fix="store them as float32",
        )


@contextmanager
def damage_of(file: str, what: str) -> Iterator[None]:
    """Turn the exceptions for a damaged file into one message. ``what``: "npz", as the message calls the file."""
    try:
        yield
    except (ConversionError, FileNotFoundError, PermissionError):
        raise
    except SIGNS_OF_DAMAGE as error:
        raise UnreadableFileError(
            f"the {what} file is damaged: {error}", where=file, fix="get the file again"
        ) from error
