"""Blobs, which operators may write over and over, -> values, each written once.

The last write wins. As in Caffe's nets, the last value of a blob keeps its name and an
earlier one is called ``BLOB@INDEX`` after the operator that wrote it; the value of an input
keeps the plain name always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from prototrt.caffe_proto.common.errors import ConversionError, NetError, Origin, raise_all
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.suggestions import choices, close_names

_MOST_ADVISED = 20
"""How many of the blobs that nobody writes are compared with the names of all others."""


@dataclass(frozen=True, slots=True)
class ReadBlob:
    """A blob that is read; its reader; and its role there: ``input``, ``link_external``."""

    blob: str
    origin: Origin
    role: str = "input"


@dataclass(frozen=True, slots=True)
class Access:
    """The blobs that one operator reads and writes."""

    origin: Origin
    reads: tuple[ReadBlob, ...]
    writes: tuple[str, ...]


@dataclass(slots=True)
class UntangledOperators:
    """The names of values, by operator, and the last value of each blob."""

    bottoms: list[tuple[str, ...]] = field(default_factory=list)
    tops: list[tuple[str, ...]] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)
    strangers: dict[str, ReadBlob] = field(default_factory=dict)


def untangle(accesses: Sequence[Access], inputs: Collection[str]) -> UntangledOperators:
    """Name the values of a net. ``strangers`` are blobs that are read, but neither given nor written before.

    From its first read on, a stranger counts as given.
    """
    writes_left = Counter(blob for access in accesses for blob in access.writes)
    names = Names([*inputs, *writes_left], "@{}")
    versions = UntangledOperators(last={blob: blob for blob in inputs})
    for index, access in enumerate(accesses):
        for read in access.reads:
            if read.blob not in versions.last:
                versions.strangers[read.blob] = read
                versions.last[read.blob] = read.blob
        versions.bottoms.append(tuple(versions.last[read.blob] for read in access.reads))
        tops = []
        for blob in access.writes:
            writes_left[blob] -= 1
            is_plain = not writes_left[blob] and blob not in inputs and blob not in versions.strangers
            versions.last[blob] = blob if is_plain else names.free(f"{blob}@{index}")
            tops.append(versions.last[blob])
        versions.tops.append(tuple(tops))
    return versions


def refuse_unwritten_blobs(
    versions: UntangledOperators, accesses: Sequence[Access], describe: Callable[[Access], str]
) -> None:
    """Raise for all blobs that are read, but made by no operator, or made too late."""
    errors: list[ConversionError] = []
    blobs = set(versions.last) - set(versions.strangers)
    writers: dict[str, Access] = {}
    for access in accesses:
        for blob in access.writes:
            writers.setdefault(blob, access)
    for blob, read in versions.strangers.items():
        later = writers.get(blob)
        because, fix = None, None
        if later is not None and later.origin == read.origin:
            because = "only this operator writes it, and an operator cannot read its own output"
            fix = "let it read an input of the net, or a blob that an earlier operator writes"
        elif later is not None:
            because = f"{describe(later)}, which writes it, comes later"
            fix = "order the operators so that each reads only blobs written before it"
        elif blobs and len(errors) < _MOST_ADVISED:
            close = close_names(blob, blobs)
            fix = f"{'write' if close else 'the blobs are'} {choices(blob, blobs)}"
        problem = "no earlier operator writes it, and it is not an input of the net"
        errors.append(
            NetError(problem, origin=read.origin, blob=f'{read.role} "{blob}"', because=because, fix=fix)
        )
    raise_all(errors)
