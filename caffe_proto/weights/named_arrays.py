"""Arrays by name in an npz file: inputs, outputs, states. What they hold is read when it is asked for."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, cast

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import Buffer, errors_for_user, map_file, open_regular
from prototrt.caffe_proto.common.memory import refuse_beyond_memory
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.npz import SIGNS_OF_DAMAGE, ArrayHeader, array_headers, name_of

_NPY = b"\x93NUMPY"


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except ConversionError:
        raise
    except OSError:
        with errors_for_user(path, "an npz file"):
            raise
    except SIGNS_OF_DAMAGE as error:
        raise UnreadableFileError(
            "is not an npz file",
            where=path,
            because=str(error).splitlines()[0] if str(error) else "it ends too early",
            fix=f'write it with numpy.savez("{Path(path).stem}.npz", NAME=array, ...)',
        ) from error


class ArraysOfFile(Mapping[str, Array]):
    """The arrays of an npz file, each of which is read on request. The file is opened once."""

    def __init__(self, file: str) -> None:
        self.file = file

    @cached_property
    def _content(self) -> Buffer:
        with open_regular(self.file, "an npz file") as stream:
            return map_file(stream)

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        content = self._content
        if content[: len(_NPY)] == _NPY:
            raise ValueError("it holds one array without a name")
        return zipfile.ZipFile(
            io.BytesIO(content) if isinstance(content, bytes) else cast(IO[bytes], content)
        )

    @cached_property
    def headers(self) -> Mapping[str, ArrayHeader]:
        """What the file says of each array. NumPy allocates any size that a header states, so each is checked."""
        with _errors_of(self.file):
            return array_headers(self._archive)

    @cached_property
    def _members(self) -> Mapping[str, zipfile.ZipInfo]:
        return {name_of(member): member for member in self._archive.infolist()}

    def load(self, names: Collection[str]) -> dict[str, Array]:
        """These arrays. Raises ``NetError`` for more than the file and the memory hold, ``UnreadableFileError``."""
        headers = self.headers
        with _errors_of(self.file):
            needed = sum(headers[name].nbytes for name in names)
            refuse_beyond_memory("reading its arrays", needed, self.file, len(self._content))
            return {name: self._array(name) for name in names}

    def _array(self, name: str) -> Array:
        with self._archive.open(self._members[name]) as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
            return array

    def __getitem__(self, name: str) -> Array:
        if name not in self.headers:
            raise KeyError(name)
        return self.load([name])[name]

    def __contains__(self, name: object) -> bool:
        return name in self.headers

    def __iter__(self) -> Iterator[str]:
        return iter(self.headers)

    def __len__(self) -> int:
        return len(self.headers)


@dataclass(frozen=True)
class ArraysOnRequest(Mapping[str, Array]):
    """Arrays by name, each of which is made on request: all of them may be much larger than their file.

    ``shapes`` are those that are known before.
    """

    makers: Mapping[str, Callable[[], Array]]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

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
    if isinstance(arrays, ArraysOfFile):
        return arrays.headers[name].shape
    if isinstance(arrays, ArraysOnRequest) and name in arrays.shapes:
        return arrays.shapes[name]
    return arrays[name].shape
