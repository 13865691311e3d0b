"""Inputs for several calls out of an npz file, and their outputs into one."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from prototrt.caffe_proto.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.files import open_regular
from prototrt.caffe_proto.weights.damage import SIGNS_OF_DAMAGE
from prototrt.caffe_proto.weights.npz import Announced, announced_arrays
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.converter.files import atomic_write
from prototrt.converter.sessions.signature import Signature
from prototrt.surgery.ir import Array

Feeds = dict[str, Array]
_NPY = b"\x93NUMPY"
_MOST_CALLS = 1000  # where the file itself does not hold inputs for half of them


def read_feeds(
    path: str, inputs: Iterable[str], calls: int | None = None, signature: Signature | None = None
) -> list[Feeds]:
    """The inputs of each call.

    An array called ``NAME`` is fed in every call, ``NAME/0``, ``NAME/1``, ... only in that call.
    Without ``calls``, the numbered arrays decide their number, at least one.

    Other arrays are not read. With ``signature``, all shapes are checked before any array is read.
    """
    names = set(inputs)
    found = announced_feeds(path)
    keys = [
        {name: key for name, key in call.items() if name in names}
        for call in _by_call(found, names, calls, path)
    ]
    if signature is not None:
        refuse_misfits(path, [{name: found[key] for name, key in call.items()} for call in keys], signature)
    arrays = load_arrays(path, {key for call in keys for key in call.values()})
    return [{name: arrays[key] for name, key in call.items()} for call in keys]


def _by_call(
    keys: Iterable[str], names: Collection[str], calls: int | None, path: str
) -> list[dict[str, str]]:
    """For each call, the key of the array that each name has."""
    every: dict[str, str] = {}
    single: dict[int, dict[str, str]] = {}
    for key in keys:
        if (numbered := _of_one_call(key, names)) is not None:
            name, number = numbered
            single.setdefault(number, {})[name] = key
        else:
            every[key] = key
    count = calls or max(single, default=0) + 1
    if beyond := [call for call in single if call >= count]:
        raise ConversionError(
            f"has inputs for call {max(beyond)}, but there are {count} calls, from 0 to {count - 1}",
            where=path,
            fix=Worded("run with {}, or leave {} out", Option("calls", max(beyond) + 1), Option("calls")),
        )
    if calls is None and count > max(2 * len(single), _MOST_CALLS):
        raise ConversionError(
            f"has inputs for call {count - 1}, but for only {len(single)} calls in all",
            where=path,
            fix=Worded(
                "number the calls from 0 on, or say how many there are with {}", Option("calls", count)
            ),
        )
    return [{**every, **single.get(call, {})} for call in range(count)]


def _of_one_call(key: str, names: Collection[str]) -> tuple[str, int] | None:
    """The name and the number of an array that is fed in only one call."""
    name, _, number = key.rpartition("/")
    is_numbered = key not in names and name in names and re.fullmatch(r"[0-9]{1,18}", number)
    return (name, int(number)) if is_numbered else None


def refuse_misfits(path: str, feeds: Sequence[Mapping[str, Array | Announced]], signature: Signature) -> None:
    """Raise for inputs that are missing or have another shape, before the first call is computed."""
    for call, feed in enumerate(feeds):
        try:
            signature.refuse_names(feed)
            sizes = signature.sizes({name: array.shape for name, array in feed.items()})
            for value in signature.inputs:
                if value.name in feed:
                    signature.refuse_misfit(value, feed[value.name].shape, sizes)
        except ConversionError as error:
            error.where = path if len(feeds) == 1 else f"{path}, call {call}"
            raise


def unread_arrays(path: str, inputs: Iterable[str]) -> list[str]:
    """A warning, if there are arrays in the file that are not inputs of the net."""
    names = list(inputs)
    others = unread_keys(path, names)
    if not others:
        return []
    shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
    return [f"{path}: not read: the inputs are {', '.join(names)}: {shown}"]


def unread_keys(path: str, names: Collection[str]) -> list[str]:
    """The keys of the arrays in the file that ``read_feeds`` reads for none of the names."""
    return [key for key in announced_feeds(path) if key not in names and not _of_one_call(key, names)]


def write_results(path: str, results: Sequence[Mapping[str, Array]]) -> None:
    """Outputs under their names; of several calls under ``NAME/0``, ``NAME/1``, ..."""
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        # Not np.savez: it takes the names as keywords, so that no blob could be called "file".
        for key, array in _keyed(results):
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _keyed(results: Sequence[Mapping[str, Array]]) -> Iterator[tuple[str, Array]]:
    for call, outputs in enumerate(results):
        for name, array in outputs.items():
            yield (name if len(results) == 1 else f"{name}/{call}"), array


def announced_feeds(path: str) -> dict[str, Announced]:
    """The arrays of an npz file by name, as their headers state them; raises ``UnreadableFileError``."""
    with _archive(path) as archive:
        return announced_arrays(archive)


def load_arrays(path: str, names: Collection[str]) -> Feeds:
    """These arrays of an npz file; raises ``UnreadableFileError``."""
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
    """The file, and messages for what is wrong with it."""
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
        return announced_feeds(self.file)

    def __getitem__(self, name: str) -> Array:
        if name not in self._announced:
            raise KeyError(name)
        return load_arrays(self.file, [name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._announced)

    def __len__(self) -> int:
        return len(self._announced)
