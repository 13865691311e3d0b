"""Blobs, which layers may write over, -> values, each written once.

A layer works in place where a top is the bottom at the same position. Only that layer may read what
it writes over: Caffe hands the others copies under other names, and then finds the blob made twice.
The last value of a blob keeps the blob's name; an earlier one is called ``BLOB@LAYER``, after the
layer that wrote it. The value of a layer that reads nothing keeps the plain name always, since users may feed it;
what is written over it later is called ``BLOB@LAYER`` down to the last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from prototrt.caffe_proto.common.errors import ConversionError, MissingBlobError, NetError
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.suggestions import choices, close_names
from prototrt.caffe_proto.common.wording import Worded, listed
from prototrt.caffe_proto.layer_types import Role, layer_type
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


@dataclass(slots=True, eq=False)
class _WrittenBlob:
    blob: str
    writer: LayerEntry
    readers: list[LayerEntry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UntangledNet:
    """The names of the values of each layer, in the order of the net, and the outputs of the net.

    ``errors`` are what Caffe would refuse, by the layer to blame. ``missing`` are the blobs that some
    layer reads and no layer makes.
    """

    bottoms: list[tuple[str, ...]]
    tops: list[tuple[str, ...]]
    outputs: tuple[str, ...]
    blobs: dict[str, str]
    errors: dict[LayerEntry, list[ConversionError]]
    missing: tuple[str, ...]


_MOST_ADVISED = 20
"""Similar names are searched for this many missing blobs. If more are missing, they are hardly misspelt."""


@dataclass(slots=True)
class _Walk:
    """The values written so far: for each blob a list, the first one first."""

    file: str
    first_writers: dict[str, LayerEntry] = field(default_factory=dict)
    values: dict[str, list[_WrittenBlob]] = field(default_factory=dict)
    errors: dict[LayerEntry, list[ConversionError]] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)

    def blame(self, entry: LayerEntry, error: ConversionError) -> None:
        self.errors.setdefault(entry, []).append(error)


def untangle(entries: Sequence[LayerEntry], file: str) -> UntangledNet:
    """Name the values of a net. A blob that no layer makes keeps its name."""
    walk = _Walk(file)
    written = [list(entry.message.top) for entry in entries]
    for entry, blobs in zip(reversed(entries), reversed(written), strict=True):
        walk.first_writers.update(dict.fromkeys(blobs, entry))
    bottoms, tops = [], []
    for entry, blobs in zip(entries, written, strict=True):
        bottoms.append([_read(walk, entry, blob) for blob in entry.message.bottom])
        tops.append([_write(walk, entry, blob, position) for position, blob in enumerate(blobs)])
    _check_in_place(walk)
    names = _names(walk)
    return UntangledNet(
        [tuple(value if isinstance(value, str) else names[value] for value in values) for values in bottoms],
        [tuple(names[value] for value in values) for values in tops],
        tuple(names[values[-1]] for _, values in sorted(walk.values.items()) if not values[-1].readers),
        {blob: names[values[-1]] for blob, values in walk.values.items()},
        walk.errors,
        tuple(walk.missing),
    )


def _read(walk: _Walk, entry: LayerEntry, blob: str) -> _WrittenBlob | str:
    if blob in walk.values:
        walk.values[blob][-1].readers.append(entry)
        return walk.values[blob][-1]
    writer = walk.first_writers.get(blob)  # this layer or a later one: an earlier one has made a value
    problem = "no layer before this one makes it"
    because, fix = None, None
    if writer is entry:
        because = "only this layer writes it, and a layer cannot read its own output"
        fix = "let it read a blob that an earlier layer writes"
    elif writer is not None:
        because = f'layer "{writer.message.name}", which writes it, comes later, in line {writer.line}'
        fix = "order the layers so that each reads only blobs written before it"
    elif walk.values and len(walk.missing) < _MOST_ADVISED:
        close = close_names(blob, walk.values)
        fix = f"{'write' if close else 'the blobs before it are'} {choices(blob, walk.values)}"
    if writer is None:
        walk.missing[blob] = None
    origin = entry.origin(walk.file)
    walk.blame(entry, MissingBlobError(problem, bottom=blob, origin=origin, because=because, fix=fix))
    return blob


def _write(walk: _Walk, entry: LayerEntry, blob: str, position: int) -> _WrittenBlob:
    value = _WrittenBlob(blob, entry)
    earlier = walk.values.get(blob, [])
    if earlier and blob not in entry.message.bottom[position : position + 1]:
        first = earlier[-1].writer
        maker = f'layer "{first.message.name}" ({first.message.type}) in line {first.line}'
        walk.blame(
            entry,
            NetError(
                "the blob is written twice",
                origin=entry.origin(walk.file),
                blob=f'top "{blob}"',
                because=f"{maker} also writes it",
                fix="rename one of the two tops, or make the layer work in place by reading the blob",
            ),
        )
    walk.values.setdefault(blob, []).append(value)
    return value


def _check_in_place(walk: _Walk) -> None:
    """Add an error to each in-place layer whose bottom is also read elsewhere, or twice by the layer itself."""
    for blob, values in walk.values.items():
        for old, new in pairwise(values):
            others = list(old.readers)
            if new.writer not in others:
                continue
            others.remove(new.writer)  # once: that is what it works on
            if others:
                readers = listed([f'"{other.message.name}" in line {other.line}' for other in others])
                error = NetError(
                    "the blob is written in place while others read it",
                    origin=new.writer.origin(walk.file),
                    blob=f'top "{blob}"',
                    because=Worded("it is read by layer {}: to Caffe it is written twice", readers),
                    fix="give the top another name, and let the later layers read that",
                )
                walk.blame(new.writer, error)


def _names(walk: _Walk) -> dict[_WrittenBlob, str]:
    in_use = Names(walk.values, "@{}")
    names: dict[_WrittenBlob, str] = {}
    for blob, values in walk.values.items():
        is_fed = layer_type(values[0].writer.message.type).role is Role.CONSTANT
        plain = values[0] if is_fed else values[-1]
        for value in values:
            names[value] = blob if value is plain else in_use.free(f"{blob}@{value.writer.message.name}")
    return names


def wrong_counts(entries: Sequence[LayerEntry], file: str) -> dict[LayerEntry, list[ConversionError]]:
    """The errors of each layer that states ``propagate_down`` or ``loss_weight`` too often or too rarely.

    Source: caffe ``src/caffe/net.cpp``, ``Net::Init``, and ``include/caffe/layer.hpp``, ``SetLossWeights``.
    """
    if not any(entry.message.propagate_down or entry.message.loss_weight for entry in entries):
        return {}  # as in most nets
    read: set[str] = set()
    errors: dict[LayerEntry, list[ConversionError]] = {}
    for entry in reversed(entries):
        errors[entry] = list(_wrong_counts(entry, read, file))
        read.update(entry.message.bottom)
    return errors


def _wrong_counts(entry: LayerEntry, read: Collection[str], file: str) -> Iterator[ConversionError]:
    message = entry.message
    # Caffe gives a loss the top that the file leaves out.
    tops = len(message.top) or int(message.type.endswith("Loss"))
    for name, thing, expected in (
        ("propagate_down", "bottom", len(message.bottom)),
        ("loss_weight", "top", tops),
    ):
        count = len(getattr(message, name))
        if count not in (0, expected) and not (thing == "top" and _passes_loss_on(message, read)):
            yield NetError(
                f"{name} is stated {count} times, expected {expected}, one per {thing}",
                origin=entry.origin(file),
                fix=f"remove {name}: it only matters to training",
            )


def _passes_loss_on(layer: Message, read: Collection[str]) -> bool:
    """Whether a layer reads a top that has a loss weight: Caffe then splits the top, and does not check the count.

    Source: caffe ``src/caffe/util/insert_splits.cpp``.
    """
    return any(weight and top in read for weight, top in zip(layer.loss_weight, layer.top, strict=False))
