"""Blobs that several layers share because their ``param { name }`` are equal.

Source: caffe ``src/caffe/net.cpp``, ``Net::AppendParam``: the first layer that names a blob owns it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from prototrt.caffe_proto.common.errors import WeightsError
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry
from prototrt.caffe_proto.weights import StoredBlob, Weights

Owner = tuple[str, int]  # a layer and the index of its blob
Shared = tuple[Owner | None, ...]
Blobs = Sequence[StoredBlob | None]


def find_owners(entries: Sequence[LayerEntry]) -> list[Shared]:
    """For each layer and each ``param`` of it: the blob that owns this blob; None if it is its own."""
    first: dict[str, Owner] = {}
    owners: list[Shared] = []
    for entry in entries:
        row: list[Owner | None] = []
        for index, spec in enumerate(entry.message.param):
            here = (entry.message.name, index)
            owner = first.setdefault(spec.name, here) if spec.name else here
            row.append(None if owner == here else owner)
        owners.append(tuple(row))
    return owners


def with_places(blobs: Blobs | None, shared: Shared) -> Blobs | None:
    """The stored blobs of a layer, then None for each further blob that it shares."""
    if blobs is None:
        return None
    count = max([len(blobs), *(index + 1 for index, owner in enumerate(shared) if owner)])
    return (*blobs, *(None,) * (count - len(blobs)))


def share_stored(
    entries: Sequence[LayerEntry],
    owners: Sequence[Shared],
    stored: Sequence[Blobs | None],
    file: str,
    weights: Weights,
) -> tuple[list[Sequence[StoredBlob] | None], list[str]]:
    """The blobs of each layer, and warnings. All users of a shared blob have the same numbers.

    Caffe copies the blobs of one layer after the other into the same memory, in the order of the weights file, so
    the last ones remain.
    """
    order = {name: place for place, name in enumerate(weights.names())}
    rows = zip(entries, owners, stored, strict=True)
    copies: dict[Owner, list[tuple[str, StoredBlob]]] = {}
    for entry, shared, blobs in sorted(rows, key=lambda row: order.get(row[0].message.name, -1)):
        name = entry.message.name
        for index, blob in enumerate(blobs or ()):
            if blob is not None:
                copies.setdefault(_owner(shared, index) or (name, index), []).append((name, blob))
    common = {owner: blobs[-1][1] for owner, blobs in copies.items()}
    return [
        _with_common(entry, shared, blobs, common, file)
        for entry, shared, blobs in zip(entries, owners, stored, strict=True)
    ], [
        f"{weights.file or file}: {warning}"
        for owner, blobs in copies.items()
        for warning in _different(owner, blobs)
    ]


def _different(owner: Owner, copies: Sequence[tuple[str, StoredBlob]]) -> Iterator[str]:
    *others, (last, kept) = copies
    names = [f'"{name}"' for name, blob in others if not _are_equal(blob, kept)]
    if names:
        layers = f"layers {', '.join(names)} and" if len(names) > 1 else f"layer {names[0]} and layer"
        yield (
            f'{layers} "{last}" share blob {owner[1]} of layer "{owner[0]}", and hold different numbers for it: those'
            f' of "{last}" are used, which is the last in the file, as in Caffe'
        )


def _are_equal(one: StoredBlob, other: StoredBlob) -> bool:
    return np.array_equal(one.array.reshape(-1), other.array.reshape(-1), equal_nan=True)


def _owner(shared: Shared, index: int) -> Owner | None:
    return shared[index] if index < len(shared) else None


def _with_common(
    entry: LayerEntry, shared: Shared, blobs: Blobs | None, common: dict[Owner, StoredBlob], file: str
) -> Sequence[StoredBlob] | None:
    count = len(blobs or shared)
    there = [common.get(_owner(shared, index) or (entry.message.name, index)) for index in range(count)]
    present = [blob for blob in there if blob is not None]
    if blobs is None:
        return tuple(present) if present and len(present) == count else None
    if len(present) < count:
        problem = f"blob {there.index(None)} is missing, expected blobs 0 to {count - 1}"
        raise WeightsError(problem, origin=entry.origin(file), fix="get the weights file again")
    pairs = zip(present, blobs, strict=True)
    return tuple(_reshaped(blob, own, entry, index, file) for index, (blob, own) in enumerate(pairs))


def _reshaped(
    common: StoredBlob, own: StoredBlob | None, entry: LayerEntry, index: int, file: str
) -> StoredBlob:
    """The shared numbers in the shape that is stored for this layer: PERMISSIVE sharing allows another shape."""
    if own is None or own.shape == common.shape:
        return common
    if prod(own.shape) != prod(common.shape):
        raise WeightsError(
            f"the stored shape is {own.shape}, but it shares its numbers with a blob of shape {common.shape}",
            origin=entry.origin(file),
            blob=f"blob {index}",
            fix="give the two blobs different param names, or use the weights file of this net",
        )
    shape = own.shape
    return replace(own, read=lambda: common.array.reshape(shape))
