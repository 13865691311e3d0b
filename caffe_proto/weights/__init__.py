"""Weights as other modules see them, wherever they are stored."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prototrt.caffe_proto.common.errors import WeightsError
from prototrt.caffe_proto.common.files import MappedFile, errors_for_user, open_regular, sha256_of_stream
from prototrt.caffe_proto.common.records import dataclass, field

Array: TypeAlias = NDArray[Any]

# Caffe counts the elements of a blob in an int, and limits its axes to this number.
LARGEST_COUNT = 2**31 - 1
MOST_AXES = 32


@dataclass(frozen=True, slots=True, eq=False)
class StoredBlob:
    """One array of a layer. Nothing is read before ``array`` is asked for."""

    shape: tuple[int, ...]
    legacy: bool  # the shape is the old num, channels, height, width: leading ones may not mean anything
    read: Callable[[], Array] = field(repr=False)

    @property
    def array(self) -> Array:
        """float32, in ``shape``: a view onto the file if it holds float32, otherwise converted at each call."""
        return self.read()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its numbers: the file may not be there where it is unpickled."""
        return _blob_in_memory, (self.shape, self.legacy, self.array)


def _blob_in_memory(shape: tuple[int, ...], legacy: bool, array: Array) -> StoredBlob:
    return StoredBlob(shape, legacy, lambda: array)


class Weights(Protocol):
    """Where the arrays of a net come from."""

    @property
    def file(self) -> str | None:
        """The file, as the user named it; None if there is none."""

    @property
    def sha256(self) -> str | None:
        """The SHA-256 of the file, in hexadecimal. Reads the whole file."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the file."""

    @property
    def holds_shared_once(self) -> bool:
        """Whether a blob that layers share is stored with its owner alone, as in Caffe's HDF5 files."""

    def blobs_of(self, layer: str) -> Sequence[StoredBlob | None] | None:
        """The blobs of a layer, or None if the layer has none here. A blob that another layer owns may be None."""

    def names(self) -> Iterable[str]:
        """The layers that have blobs here."""


@dataclass(frozen=True, eq=False)
class FromFile:
    """The base class of weights in a file. When pickled, they keep only the name and the digest of the file.

    The layers of a model hold their own blobs.
    """

    file: str | None
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    holds_shared_once: bool = field(default=False, kw_only=True)

    @cached_property
    def sha256(self) -> str | None:
        return None if self.file is None else sha256_of(self.file)

    def __reduce__(self) -> tuple[Any, ...]:
        return UnpickledWeights, (self.file, self.sha256, self.warnings, self.holds_shared_once)


@dataclass(frozen=True, eq=False)
class StoredWeights(FromFile):
    """The layers of a file, whatever its form. The blobs of one are found when they are asked for."""

    layers: Mapping[str, Callable[[], Sequence[StoredBlob | None]]] = field(repr=False)

    def names(self) -> Iterable[str]:
        return self.layers.keys()

    def blobs_of(self, layer: str) -> Sequence[StoredBlob | None] | None:
        return self.layers[layer]() if layer in self.layers else None


@dataclass(frozen=True, slots=True, eq=False)
class UnpickledWeights:
    """The weights of an unpickled model, whose layers hold all blobs of the file."""

    file: str | None = None
    sha256: str | None = None
    warnings: tuple[str, ...] = ()
    holds_shared_once: bool = False

    def blobs_of(self, layer: str) -> Sequence[StoredBlob | None] | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


class NoWeights(UnpickledWeights):
    """A net whose weights were not given."""

    __slots__ = ()


Purpose: TypeAlias = Literal["weight", "bias", "mean", "variance", "scale", "slope"]
"""What a learned array is for: it decides which numbers make sense in it."""
_RANGES: dict[Purpose, tuple[float, float]] = {
    "variance": (0.5, 1.5),
    "scale": (0.5, 1.5),
    "slope": (0.0, 0.5),
}


@dataclass(frozen=True, slots=True, eq=False)
class RandomWeights(NoWeights):
    """Weights drawn when a layer's rule asks for them, since only the rule knows their shapes."""

    seed: int = 0

    def draw(self, layer: str, index: int, shape: tuple[int, ...], kind: Purpose = "weight") -> Array:
        """A float32 array that depends on seed, layer, index, shape and purpose alone.

        A weight has the deviation 1/sqrt(fan-in), a bias and a mean have 0.1; scales and variances are between 0.5
        and 1.5, slopes between 0 and 0.5.
        """
        if prod(shape) > LARGEST_COUNT:
            raise WeightsError(
                f"a blob of shape {shape} has {prod(shape)} elements, expected at most {LARGEST_COUNT}",
                where=f'layer "{layer}", blob {index}',
                fix="use smaller layers or inputs",
            )
        random = np.random.default_rng([self.seed, zlib.crc32(layer.encode()), index])
        if kind in _RANGES:
            return random.uniform(*_RANGES[kind], shape).astype(np.float32)
        deviation = 0.1 if kind in ("bias", "mean") else max(prod(shape[1:]), 1) ** -0.5
        return random.standard_normal(shape, np.float32) * np.float32(deviation)


def sha256_of(file: str) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises ``UnreadableFileError``."""
    with errors_for_user(file, "a weights file"), open_regular(file, "a weights file") as stream:
        return sha256_of_stream(stream)


def place_in_file(array: Array) -> tuple[MappedFile, int] | None:
    """The mapped file that holds the array, and the offset of its first element in bytes; None if no file does."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, MappedFile):
        return None
    here, start = (each.__array_interface__["data"][0] for each in (array, np.frombuffer(base, np.uint8, 1)))
    return base, here - start


def drop_pages(array: Array) -> None:
    """Take a mapped array out of the memory of this process, where the system can; who reads it gets it again."""
    place = place_in_file(array) if array.flags.c_contiguous else None
    if place is not None and hasattr(mmap, "MADV_DONTNEED"):
        file, offset = place
        first = offset - offset % mmap.PAGESIZE
        file.madvise(mmap.MADV_DONTNEED, first, offset + array.nbytes - first)


def check_count(
    shape: tuple[int, ...],
    count: int,
    where: str,
    blob: str,
    fix: str = "get the weights file again: it is damaged",
) -> None:
    """Raise ``WeightsError`` if a blob has an invalid shape, or another number of elements than its shape states."""
    if len(shape) > MOST_AXES:
        problem = f"the stored shape has {len(shape)} axes, expected at most {MOST_AXES}"
        raise WeightsError(problem, where=where, blob=blob, fix=fix)
    if any(dim < 0 for dim in shape) or prod(shape) > LARGEST_COUNT:
        problem = f"the stored shape is {shape}, expected at most {LARGEST_COUNT} elements"
        raise WeightsError(problem, where=where, blob=blob, fix=fix)
    if prod(shape) != count:
        problem = f"the stored shape {shape} has {prod(shape)} elements, found {count}"
        raise WeightsError(problem, where=where, blob=blob, fix=fix)
