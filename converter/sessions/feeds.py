"""Inputs for several calls out of an npz file, and their outputs into one."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from prototrt.caffe_proto.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.files import open_regular
from prototrt.caffe_proto.weights.damage import SIGNS_OF_DAMAGE
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.converter.files import atomic_write
from prototrt.converter.sessions.signature import Signature
from prototrt.surgery.ir import Array

Feeds = dict[str, Array]


def read_feeds(path: str, inputs: Iterable[str], calls: int | None = None) -> list[Feeds]:
    """What to feed in each call.

    An array called ``NAME`` is fed in every call, ``NAME/0``, ``NAME/1``, ... in that call
    alone. Without ``calls`` there are as many as the numbered arrays ask for, at least one.
    """
    arrays = load_arrays(path)
    names = set(inputs)
    every: Feeds = {}
    single: dict[int, Feeds] = {}
    for key, array in arrays.items():
        name, _, number = key.rpartition("/")
        if key not in names and name in names and number.isdecimal():
            single.setdefault(int(number), {})[name] = array
        else:
            every[key] = array
    count = calls or max(single, default=0) + 1
    if beyond := [call for call in single if call >= count]:
        raise ConversionError(
            f"has inputs for call {max(beyond)}, but there are {count} calls, from 0 to {count - 1}",
            where=path,
            fix=Worded("run with {}, or leave {} out", Option("calls", max(beyond) + 1), Option("calls")),
        )
    return [{**every, **single.get(call, {})} for call in range(count)]


def refuse_misfits(path: str, feeds: Sequence[Feeds], signature: Signature) -> None:
    """Raise for inputs that are missing or have another shape, before the first call is computed."""
    for call, feed in enumerate(feeds):
        try:
            signature.refuse_missing(feed)
            sizes = signature.sizes({name: array.shape for name, array in feed.items()})
            for value in signature.inputs:
                if value.name in feed:
                    signature.refuse_misfit(value, feed[value.name].shape, sizes)
        except ConversionError as error:
            error.where = path if len(feeds) == 1 else f"{path}, call {call}"
            raise


def unread_arrays(path: str, feeds: Sequence[Feeds], inputs: Iterable[str]) -> list[str]:
    """A warning, if there are arrays that are not inputs of the net."""
    names = list(inputs)
    others = list(dict.fromkeys(key for feed in feeds for key in feed if key not in names))
    if not others:
        return []
    shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
    return [f"{path}: not read: the inputs are {', '.join(names)}: {shown}"]


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


def load_arrays(path: str) -> Feeds:
    """All arrays of an npz file by name; raises ``UnreadableFileError``."""
    try:
        with open_regular(path, "an npz file") as stream:
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array without a name")
            with archive:
                return {name: archive[name] for name in archive.files}
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise UnreadableFileError(problem, where=path, fix="give an npz file") from error
    except SIGNS_OF_DAMAGE as error:
        raise UnreadableFileError(
            "is not an npz file",
            where=path,
            because=_reason(error),
            fix=f'write it with numpy.savez("{Path(path).stem}.npz", NAME=array, ...)',
        ) from error


class ArraysOfFile(Mapping[str, Array]):
    """The arrays of an npz file, which is read when the first is asked for."""

    def __init__(self, file: str) -> None:
        self.file = file

    @cached_property
    def _arrays(self) -> Feeds:
        return load_arrays(self.file)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _reason(error: Exception) -> str:
    """numpy takes any file that it does not know for a pickle, and advises to load it all the same."""
    text = str(error)
    if "pickle" in text:
        return "it holds objects that are not arrays of numbers"
    return text.splitlines()[0] if text else "it ends too early"
