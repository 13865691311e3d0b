"""Blobs that share memory: what Caffe changes when a layer works in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.layer_types import InPlace, layer_type
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import DType, OpenSize, Shape, Value, measure
from prototrt.surgery.ops import GREATER, Identity, Select, Slice


@dataclass(slots=True, eq=False)
class SharedPlace:
    """The contents of one place in memory: tops, by the names of their values, and states, by number.

    ``warning`` is one for layers that write there: ``works in place on``, then this text. ``sometimes`` are other
    places that are the same one at some sizes. ``part_of`` is the place that this one was joined with.
    """

    tops: set[str] = field(default_factory=set)
    states: set[int] = field(default_factory=set)
    warning: str | None = None
    sometimes: list[Sometimes] = field(default_factory=list)
    part_of: SharedPlace | None = None

    @property
    def whole(self) -> SharedPlace:
        """This place with all that it was joined with."""
        return self if self.part_of is None else self.part_of.whole


@dataclass(frozen=True, slots=True, eq=False)
class Sometimes:
    """A place that is also another one where ``size`` is 1: then this blob, ``(size, ...)``, lies there too.

    ``own`` is the shape of the blob in the place itself, ``others`` that of the blob in the other place.
    """

    size: OpenSize
    own: Shape
    place: SharedPlace
    others: Shape


class SharedMemory:
    """Tracks which tops share memory, where that affects in-place layers.

    Source: caffe ``Blob::ShareData`` in ``split_layer.cpp``, ``reshape_layer.cpp``,
    ``flatten_layer.cpp``, ``concat_layer.cpp``, ``slice_layer.cpp`` and ``recurrent_layer.cpp``.
    """

    def __init__(self) -> None:
        self._place_of: dict[str, SharedPlace] = {}

    def share(self, tops: Iterable[str], states: Iterable[int] = ()) -> None:
        """Record that these share one place in memory, with everything that shares it already."""
        names = {*tops}
        places = {id(place): place for name in names if (place := self._place_of.get(name))}
        joined = max(places.values(), key=lambda place: len(place.tops), default=SharedPlace())
        joined.states.update(states)
        for place in places.values():
            if place is not joined:  # the largest stays as it is: a long chain joins it one by one
                names |= place.tops
                joined.states |= place.states
                joined.warning = joined.warning or place.warning
                joined.sometimes += place.sometimes
                place.part_of = joined
        joined.tops |= names
        self._place_of.update(dict.fromkeys(names, joined))

    def share_where_one(
        self, size: OpenSize, top: str, shape: Shape, other: str | int, others: Shape
    ) -> None:
        """Record that a top shares the place of another top, or of the state with a number, where a size is 1."""
        own = self._place_of.setdefault(top, SharedPlace({top}))
        place = (
            SharedPlace(states={other})
            if isinstance(other, int)
            else self._place_of.setdefault(other, SharedPlace({other}))
        )
        own.sometimes.append(Sometimes(size, shape, place, others))
        place.sometimes.append(Sometimes(size, others, own, shape))

    def tell(self, tops: Iterable[str], text: str) -> None:
        """Add a warning for in-place layers on one of these tops: ``works in place on``, then this text."""
        for top in tops:
            self._place_of.setdefault(top, SharedPlace({top})).warning = text

    def write_through(self, build: Builder, layer: Layer, values: dict[str, Value]) -> None:
        """Update all blobs in the memory that the layer wrote in place."""
        if not self._place_of:
            return
        blobs = zip(layer.message.bottom, layer.message.top, layer.bottoms, layer.tops, strict=False)
        for bottom, top in [(bottom, top) for read, written, bottom, top in blobs if read == written]:
            place = self._place_of.pop(bottom, None)
            if place is None:
                continue
            if not _is_copy(build, values[bottom], values[top]):
                if place.warning:
                    build.warn(f"works in place on {place.warning}")
                _overwrite(build, place, {bottom, top}, values[top], values)
                for link in place.sometimes:
                    _overwrite_where_one(build, link, values[top], values)
            place.tops.discard(bottom)
            place.tops.add(top)
            self._place_of[top] = place


def _is_copy(build: Builder, old: Value, new: Value) -> bool:
    """Whether a value is a copy of another one: such a layer leaves the memory as it was."""
    node = build.writer(new)
    return node is not None and isinstance(node.op, Identity) and node.inputs == (old,)


def _overwrite(
    build: Builder, place: SharedPlace, done: set[str], new: Value, values: dict[str, Value]
) -> None:
    for name in sorted(place.tops - done):
        values[name] = build.overwrite(values[name], build.reshape(new, values[name].shape))
    for number in sorted(place.states):
        state = build.recurrences[number].output
        build.overwrite(state, build.reshape(new, state.shape))


def _overwrite_where_one(build: Builder, link: Sometimes, new: Value, values: dict[str, Value]) -> None:
    """Update what lies in the other place: chosen in each call, by the size."""
    written, rank = build.reshape(new, link.own), len(link.own)
    first = written if link.own[0] == 1 else build.add(Slice(0, 0, 1), written, hint="first_step")
    sizes = (build.scalar(2, rank, DType.INT32), build.scalar(link.size, rank, DType.INT32))
    is_one = build.add(GREATER, *sizes, hint="is_one_step")

    def select(old: Value) -> Value:
        kept = build.reshape(old, link.others)
        return build.reshape(build.add(Select(), is_one, first, kept, hint="carried"), old.shape)

    place = link.place.whole
    for name in sorted(place.tops):
        values[name] = build.overwrite(values[name], select(values[name]))
    for number in sorted(place.states):
        state = build.recurrences[number].output
        build.overwrite(state, select(state))


def warn_of_overwriting(
    build: Builder, layer: Layer, bottoms: Sequence[Value], tops: Sequence[Value]
) -> None:
    """Warn of an in-place layer that Caffe computes wrongly: its results differ from ours.

    If the top has another size, Caffe also changes the shape of the bottom before it reads it.
    """
    in_place = layer_type(layer.type).in_place
    if in_place is InPlace.MOVES_FORWARDS or _multiplies(layer):
        return
    names = zip(layer.message.bottom, layer.message.top, bottoms, tops, strict=False)
    shapes = [(bottom.shape, top.shape) for read, written, bottom, top in names if read == written]
    changed = (old != new and measure(old) != measure(new) for old, new in shapes)
    if shapes and (in_place is InPlace.OVERWRITES or any(changed)):
        build.warn(
            "works in place, where Caffe overwrites elements before it reads them: prototrt reads a copy instead"
        )


def _multiplies(layer: Layer) -> bool:
    """Each element of a product, or of LRN within a channel, is read right before it is written."""
    if layer.type == "LRN":
        return bool(layer.param.norm_region == layer.param.WITHIN_CHANNEL)
    return layer.type == "Eltwise" and bool(layer.param.operation == layer.param.PROD)
