"""What a layer states once a bottom or once a top: Caffe ends the process where the counts differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototrt.caffe_proto.errors import ConversionError, NetError, raise_all
from prototrt.caffe_proto.upgrade import Entry


def refuse_wrong_counts(entries: Sequence[Entry], file: str) -> None:
    """Raise for all ``propagate_down`` and ``loss_weight`` that are stated too often or too seldom.

    Source: caffe ``src/caffe/net.cpp``, ``Net::Init``, and ``include/caffe/layer.hpp``, ``SetLossWeights``.
    """
    raise_all([error for entry in entries for error in _wrong_counts(entry, file)])


def _wrong_counts(entry: Entry, file: str) -> Iterator[ConversionError]:
    message = entry.message
    # Caffe gives a loss the top that the file leaves out.
    tops = len(message.top) or int(message.type.endswith("Loss"))
    for name, thing, expected in (
        ("propagate_down", "bottom", len(message.bottom)),
        ("loss_weight", "top", tops),
    ):
        stated = len(getattr(message, name))
        if stated not in (0, expected):
            yield NetError(
                f"{name} is stated {stated} times, expected {expected}, once a {thing}",
                origin=entry.origin(file),
                fix=f"remove {name}: it only matters to training",
            )
