"""Arrays by name in an npz file: inputs, outputs, states. What they hold is read when it is asked for."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import open_regular
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.npz import SIGNS_OF_DAMAGE, Announced, announced_arrays

_NPY = b"\x93NUMPY"


def announced_in(path: str) -> dict[str, Announced]:
    """The arrays in an npz file by name, as their headers describe them. Raises ``UnreadableFileError``."""
    with _archive(path) as archive:
        return announced_arrays(archive)


def load_arrays(path: str, names: Collection[str]) -> dict[str, Array]:
    """Load these arrays of an npz file. Raises ``UnreadableFileError``."""
    with _archive(path) as archive:
        announced_arrays(archive)  # NumPy allocates any size that a header states
        return {name: _array(archive, name) for name in names}


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    members = archive.namelist()
    with archive.open(name if name in members else f"{name}.npy") as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        return array


@contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    """The open npz file. Errors in it become messages."""
    try:
        with open_regular(path, "an npz file") as stream:
            if stream.read(len(_NPY)) == _NPY:
                raise ValueError("it holds one array without a name")
            with zipfile.ZipFile(stream) as archive:
                yield archive
    except UnreadableFileError:
        raise
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise UnreadableFileError(problem, where=path, fix="give an npz file") from error
    except SIGNS_OF_DAMAGE as error:
        raise UnreadableFileError(
            "is not an npz file",
            where=path,
            because=str(error).splitlines()[0] if str(error) else "it ends too early",
            fix=f'write it with numpy.savez("{Path(path).stem}.npz", NAME=array, ...)',
        ) from error


class ArraysOfFile(Mapping[str, Array]):
    """The arrays of an npz file, each of which is read on request."""

    def __init__(self, file: str) -> None:
        self.file = file

    @cached_property
    def _announced(self) -> Mapping[str, Announced]:
        return announced_in(self.file)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape in the header of an array, which is not read."""
        return self._announced[name].shape

    def __getitem__(self, name: str) -> Array:
        if name not in self._announced:
            raise KeyError(name)
        return load_arrays(self.file, [name])[name]

    def __contains__(self, name: object) -> bool:
        return name in self._announced

    def __iter__(self) -> Iterator[str]:
        return iter(self._announced)

    def __len__(self) -> int:
        return len(self._announced)


@dataclass(frozen=True)
class ArraysOnRequest(Mapping[str, Array]):
    """Arrays by name, each of which is made on request: all of them may be much larger than their file."""

    makers: Mapping[str, Callable[[], Array]]

    def __getitem__(self, name: str) -> Array:
        return self.makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self.makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def shape_in(arrays: Mapping[str, Array], name: str) -> tuple[int, ...]:
    """The shape of one of the arrays. An array in a file is not read for it."""
    return arrays.shape_of(name) if isinstance(arrays, ArraysOfFile) else arrays[name].shape
