"""Blobs that lie in the same memory: in Caffe, a layer that works in place on one of them changes them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prototrt.caffe_proto import Layer
from prototrt.surgery.ir import Value
from prototrt.surgery.ir.builder import Builder
from prototrt.surgery.ops import Identity


@dataclass(slots=True, eq=False)
class SharedPlace:
    """The contents of one place in memory: tops, by the names of their values, and states, by number."""

    tops: set[str]
    states: set[int]


class SharedMemory:
    """Tracks which tops share memory, where that affects in-place layers.

    Source: caffe ``Blob::ShareData`` in ``split_layer.cpp``, ``reshape_layer.cpp``,
    ``flatten_layer.cpp``, ``concat_layer.cpp``, ``slice_layer.cpp`` and ``recurrent_layer.cpp``.
    """

    def __init__(self) -> None:
        self._places: list[SharedPlace] = []
        self._told: dict[str, str] = {}

    def share(self, tops: Iterable[str], states: Iterable[int] = ()) -> None:
        """Record that these share one place in memory, with everything that shares it already."""
        joined = SharedPlace(set(tops), set(states))
        for place in [place for place in self._places if place.tops & joined.tops]:
            joined.tops |= place.tops
            joined.states |= place.states
            self._places.remove(place)
        self._places.append(joined)
        for text in [self._told[top] for top in sorted(joined.tops) if top in self._told]:
            self.tell(joined.tops, text)

    def tell(self, tops: Iterable[str], text: str) -> None:
        """Add a warning for in-place layers on one of these tops: ``works in place on``, then this text."""
        self._told.update(dict.fromkeys(tops, text))

    def write_through(self, build: Builder, layer: Layer, values: dict[str, Value]) -> None:
        """Update all blobs in the memory that the layer wrote in place."""
        blobs = zip(layer.message.bottom, layer.message.top, layer.bottoms, layer.tops, strict=False)
        for bottom, top in [(bottom, top) for read, written, bottom, top in blobs if read == written]:
            changes = not _is_copied(build, values[bottom], values[top])
            if bottom in self._told:
                self.tell([top], self._told[bottom])
                if changes:
                    build.warn(f"works in place on {self._told[bottom]}")
            for place in self._places:
                if bottom in place.tops:
                    if changes:
                        _overwrite(build, place, {bottom, top}, values[top], values)
                    place.tops = place.tops - {bottom} | {top}


def _is_copied(build: Builder, old: Value, new: Value) -> bool:
    """A layer that does nothing at inference leaves the memory as it was."""
    return any(
        isinstance(node.op, Identity) and node.inputs == (old,) and node.outputs == (new,)
        for node in build.nodes
    )


def _overwrite(
    build: Builder, place: SharedPlace, done: set[str], new: Value, values: dict[str, Value]
) -> None:
    for name in sorted(place.tops - done):
        values[name] = build.overwritten(values[name], build.reshape(new, values[name].shape))
    for number in sorted(place.states):
        state = build.recurrences[number].output
        build.overwritten(state, build.reshape(new, state.shape))
