"""Parameters that a layer states once per bottom or top: Caffe ends the process if the counts differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from prototrt.caffe_proto.common.errors import ConversionError, NetError
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


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
