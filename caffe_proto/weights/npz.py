"""The headers of npy files, alone or in an npz file. They are read before the numbers, which may take gigabytes."""

from __future__ import annotations

import zipfile
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

# Of the others, zipfile unpacks some kilobytes to any number of gigabytes at once.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Announced(NamedTuple):
    """An array that has not been read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size: int
    """The number of elements, computed from the size of the file."""


def announced(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Announced:
    """The header of a member of an npz file. Raises ``ValueError``, and what zipfile and NumPy raise for damage."""
    if member.compress_type not in _METHODS:
        raise ValueError("it is compressed by a method that NumPy does not use")
    with archive.open(member) as stream:
        return announced_by(stream, member.file_size)


def announced_by(stream: IO[bytes], size: int) -> Announced:
    """The header of an npy file of ``size`` bytes. Raises what NumPy raises for damage."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return Announced(tuple(shape), dtype, (size - stream.tell()) // max(dtype.itemsize, 1))


def announced_arrays(archive: zipfile.ZipFile) -> dict[str, Announced]:
    """All arrays of the file by name. Raises ``ValueError`` where a member has another size than its header says."""
    arrays = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        header = announced(archive, member)
        if header.dtype.hasobject:
            raise ValueError("it holds objects that are not arrays of numbers")
        if prod(header.shape) != header.size:
            raise ValueError(f'"{name}" has the shape {header.shape}, but {header.size} numbers')
        arrays[name] = header
    return arrays
