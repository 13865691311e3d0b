"""Files of arrays: npz, npy, HDF5, and mean files. Only the numbers of a mean file are read.

Each function takes the open file. It raises ``UnreadableFileError`` for damage.
"""

from __future__ import annotations

import importlib
import re
import zipfile
from collections.abc import Mapping
from math import prod
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import open_regular
from prototrt.caffe_proto.recognition import OpenFile
from prototrt.caffe_proto.weights.array_files import damage_of
from prototrt.caffe_proto.weights.binaryproto import read_binaryproto
from prototrt.caffe_proto.weights.hdf5 import blobs_in_hdf5
from prototrt.caffe_proto.weights.npz import ArrayHeader, array_headers, read_header
from prototrt.converter.showing.glance.facts import Fact, FileFacts, FileKind, Rows
from prototrt.surgery.ir.shapes import sizes

_OF_WEIGHTS = re.compile(r".+/[0-9]{1,5}")
_COLUMNS = ("name", "type", "shape")


def npz(file: OpenFile) -> FileFacts:
    """The arrays of an npz file: name, type, shape.

    They are weights if each is called LAYER/INDEX. Arrays of calls, NAME/0, NAME/1, ..., are called so, too.
    """
    with damage_of(file.name, "npz"), zipfile.ZipFile(file.name) as archive:
        arrays = array_headers(archive)
    rows = [(name, str(array.dtype), sizes(array.shape)) for name, array in arrays.items()]
    are_weights = bool(arrays) and all(map(_OF_WEIGHTS.fullmatch, arrays)) and not _are_of_calls(arrays)
    kind = FileKind.NPZ_WEIGHTS if are_weights else FileKind.NPZ
    facts: dict[str, Fact] = {"arrays": len(arrays), "numbers": sum(array.size for array in arrays.values())}
    return FileFacts.of(file, kind, facts, Rows("contents", _COLUMNS, rows))


def _are_of_calls(arrays: Mapping[str, ArrayHeader]) -> bool:
    """Whether each name has several arrays of one shape. Hardly any net has such blobs in all of its layers."""
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for name, array in arrays.items():
        shapes.setdefault(name.rpartition("/")[0], []).append(array.shape)
    return all(len(each) > 1 and len(set(each)) == 1 for each in shapes.values())


def npy(file: OpenFile) -> FileFacts:
    """The type and the shape of the array in an npy file."""
    with damage_of(file.name, "npy"), open_regular(file.name, "an npy file") as stream:
        array = read_header(stream, file.size)
        if array.dtype.hasobject:
            raise ValueError("it holds objects that are not numbers")
        bytes_left = file.size - array.begin
        if prod(array.shape) * array.dtype.itemsize != bytes_left:
            raise ValueError(f"the shape is {array.shape}, but there are {bytes_left} bytes of numbers")
    return FileFacts.of(file, FileKind.NPY, {"type": str(array.dtype), "shape": sizes(array.shape)})


def hdf5(file: OpenFile) -> FileFacts:
    """The blobs of weights that Caffe saved, or the datasets of another file."""
    try:
        layers = blobs_in_hdf5(file.name)
    except UnreadableFileError as error:
        return _datasets(file, error)
    blobs = [(f"{layer}/{index}", blob) for layer, each in layers.items() for index, blob in each.items()]
    rows = [(name, sizes(blob.shape)) for name, blob in blobs]
    facts = {"layers": len(layers), "parameters": sum(prod(blob.shape) for _, blob in blobs)}
    return FileFacts.of(file, FileKind.HDF5_WEIGHTS, facts, Rows("blobs", ("blob", "shape"), rows))


def _datasets(file: OpenFile, refusal: ConversionError) -> FileFacts:
    """The datasets and groups at the top of a file without weights. Links are not followed.

    Raises ``refusal`` if there are only groups.
    """
    h5py: Any = importlib.import_module("h5py")
    rows: list[tuple[str, str, str]] = []
    with damage_of(file.name, "HDF5"), h5py.File(file.name, "r") as store:
        for name in store:
            if isinstance(store.get(name, getlink=True), h5py.HardLink):
                rows.append((name, *_describe(h5py, store[name])))
    if all(kind == "group" for _, kind, _ in rows):
        raise refusal
    return FileFacts.of(file, FileKind.HDF5, {}, Rows("contents", _COLUMNS, rows))


def _describe(h5py: Any, item: Any) -> tuple[str, str]:
    """The type and the shape of a dataset; of anything else, what it is."""
    if isinstance(item, h5py.Dataset) and not item.is_virtual:
        return str(item.dtype), sizes(item.shape or ())
    return type(item).__name__.lower(), ""


def mean_file(file: OpenFile) -> FileFacts:
    """The blob (N, C, H, W) of a mean file, and the mean of each channel, which many programs subtract instead."""
    array = read_binaryproto(file.name)
    facts: dict[str, Fact] = {"shape": sizes(array.shape), "smallest": f"{array.min():g}"}
    facts["largest"] = f"{array.max():g}"
    if array.ndim == 4:
        facts["mean of each channel"] = [f"{number:.3f}" for number in array.mean(axis=(0, 2, 3))]
    return FileFacts.of(file, FileKind.MEAN, facts)
