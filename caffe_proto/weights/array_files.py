"""Weights in general array files: Caffe's HDF5 snapshots, and numpy's ``.npz`` with keys ``LAYER/INDEX``."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from prototrt.caffe_proto.errors import ConversionError, UnreadableFileError, WeightsError
from prototrt.caffe_proto.files import told_to_the_user
from prototrt.caffe_proto.weights import Array, StoredBlob, checked_count, sha256_of
from prototrt.caffe_proto.weights.damage import SIGNS_OF_DAMAGE

Index = dict[str, dict[int, StoredBlob]]


@dataclass(frozen=True, eq=False)
class ArrayFileWeights:
    """Blobs by layer and index. Each array is read when it is asked for."""

    file: str
    layers: Index = field(repr=False)
    warnings: tuple[str, ...] = ()
    holds_shared_once: bool = True

    @cached_property
    def sha256(self) -> str:
        return sha256_of(self.file)

    def names(self) -> Iterable[str]:
        return self.layers.keys()

    def stored(self, layer: str) -> Sequence[StoredBlob | None] | None:
        blobs = self.layers.get(layer)
        return None if blobs is None else tuple(blobs.get(index) for index in range(max(blobs) + 1))


def open_npz(file: str) -> ArrayFileWeights:
    layers: Index = {}
    with told_to_the_user(file, "an npz file"), _damage(file, "npz"), zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            layer, index = _layer_and_index(entry.filename.removesuffix(".npy"), file)
            shape = _npy_shape(archive, entry, f'{file}: layer "{layer}"', f"blob {index}")
            layers.setdefault(layer, {})[index] = StoredBlob(
                shape, False, partial(_read_npy, file, entry.filename)
            )
    if not layers:
        fix = 'save blobs in it, as in np.savez(file, **{"conv1/0": weights})'
        raise UnreadableFileError("the file holds no arrays, expected weights", where=file, fix=fix)
    return ArrayFileWeights(file, layers)


def _layer_and_index(key: str, file: str) -> tuple[str, int]:
    layer, slash, index = key.rpartition("/")
    if not (slash and layer and index.isascii() and index.isdigit() and len(index) < 6):
        fix = 'save each blob under its layer and its index, as in np.savez(file, **{"conv1/0": weights})'
        raise WeightsError(f'the key is "{key}", expected LAYER/INDEX', where=file, fix=fix)
    return layer, int(index)


def _npy_shape(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str, blob: str) -> tuple[int, ...]:
    """The shape in the header, once it agrees with the size: numpy allocates whatever a header says."""
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(stream)
        payload = entry.file_size - stream.tell()
    _check_dtype(dtype, where, blob)
    checked_count(tuple(shape), payload // dtype.itemsize, where, blob)
    return tuple(shape)


def _read_npy(file: str, key: str) -> Array:
    with told_to_the_user(file, "an npz file"), _damage(file, "npz"), np.load(file) as archive:
        array: Array = archive[key]
    return array.astype(np.float32, copy=False)


def open_hdf5(file: str) -> ArrayFileWeights:
    """Caffe's ``.caffemodel.h5``: the datasets ``data/LAYER/INDEX``."""
    h5py = _h5py(file)
    layers: Index = {}
    with told_to_the_user(file, "an HDF5 file"), _damage(file, "HDF5"), h5py.File(file, "r") as store:
        data = store.get("data")
        if not isinstance(data, h5py.Group):
            fix = "give the .caffemodel.h5 that Caffe saved (a .solverstate.h5 holds no weights)"
            raise UnreadableFileError('there is no group "data", expected one', where=file, fix=fix)
        if not len(data):
            fix = "give the .caffemodel.h5 that Caffe saved for this net"
            raise UnreadableFileError("the file holds no layers, expected weights", where=file, fix=fix)
        data.visititems(partial(_note_dataset, h5py, file, layers))
    return ArrayFileWeights(file, layers)


def _note_dataset(h5py: Any, file: str, layers: Index, name: str, item: Any) -> None:
    if not isinstance(item, h5py.Dataset):
        return
    layer, index = _layer_and_index(name, file)
    where, blob = f'{file}: layer "{layer}"', f"blob {index}"
    _check_dtype(item.dtype, where, blob)
    # What nobody wrote takes no room in the file, whatever its shape; no filter packs 1100 bytes into one.
    is_written = item.nbytes <= 1100 * item.id.get_storage_size()
    checked_count(item.shape, item.size if is_written else 0, where, blob)
    layers.setdefault(layer, {})[index] = StoredBlob(
        item.shape, False, partial(_read_dataset, h5py, file, name)
    )


def _read_dataset(h5py: Any, file: str, name: str) -> Array:
    with told_to_the_user(file, "an HDF5 file"), _damage(file, "HDF5"), h5py.File(file, "r") as store:
        return np.asarray(store["data"][name], np.float32)


def _h5py(file: str) -> Any:
    try:
        import h5py  # type: ignore[import-untyped]  # it has no stubs
    except ImportError as error:
        raise UnreadableFileError(
            "this is an HDF5 file, and h5py is not installed", where=file, fix="pip install 'prototrt[hdf5]'"
        ) from error
    return h5py


def _check_dtype(dtype: np.dtype[Any], where: str, blob: str) -> None:
    if dtype.kind not in "fiu":
        raise WeightsError(
            f"the numbers are of type {dtype}, expected floats",
            where=where,
            blob=blob,
            fix="store them as float32",
        )


@contextmanager
def _damage(file: str, what: str) -> Iterator[None]:
    """Turn them into one message."""
    try:
        yield
    except (ConversionError, FileNotFoundError, PermissionError):
        raise
    except SIGNS_OF_DAMAGE as error:
        raise UnreadableFileError(
            f"the {what} file is damaged: {error}", where=file, fix="get the file again"
        ) from error
