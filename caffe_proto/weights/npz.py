"""The headers of npy files, alone or in an npz file. They are read before the numbers, which may take gigabytes."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

# Of the others, zipfile unpacks some kilobytes to any number of gigabytes at once.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
SIGNS_OF_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""The exceptions of zipfile, NumPy and h5py for damaged files."""
_LARGEST_HEADER = 1 << 16
"""Bytes. NumPy writes less than 200, and reads whatever length a header states."""


class ArrayHeader(NamedTuple):
    """An array that has not been read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size: int
    """The number of elements, computed from the size of the file."""
    begin: int
    """Where they begin in the file."""

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


def member_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ArrayHeader:
    """The header of a member of an npz file. Raises ``ValueError``, and what zipfile and NumPy raise for damage."""
    if member.compress_type not in _METHODS:
        raise ValueError("it is compressed by a method that NumPy does not use")
    with archive.open(member) as stream:
        return read_header(stream, member.file_size)


def read_header(stream: IO[bytes], size: int) -> ArrayHeader:
    """The header of an npy file of ``size`` bytes. Raises what NumPy raises for damage."""
    head = io.BytesIO(stream.read(_LARGEST_HEADER))
    version = np.lib.format.read_magic(head)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(head)
    return ArrayHeader(tuple(shape), dtype, (size - head.tell()) // max(dtype.itemsize, 1), head.tell())


def name_of(member: zipfile.ZipInfo) -> str:
    """The name of the array that a member of an npz file holds."""
    return member.filename.removesuffix(".npy")


def array_headers(archive: zipfile.ZipFile) -> dict[str, ArrayHeader]:
    """All arrays of the file by name. Raises ``ValueError`` where a member has another size than its header says."""
    arrays = {}
    for member in archive.infolist():
        name = name_of(member)
        arrays[name] = member_header(archive, member)
        refuse_contradiction(arrays[name], f'"{name}"')
    return arrays


def refuse_contradiction(header: ArrayHeader, name: str) -> None:
    """Raise ``ValueError`` for an array without numbers, or with more or fewer than its header says."""
    if header.dtype.hasobject:
        raise ValueError("it holds objects that are not arrays of numbers")
    if prod(header.shape) != header.size:
        raise ValueError(f"{name} has the shape {header.shape}, but {header.size} numbers")
