"""What the layers of a training net are for: which bring labels, which measure, and which values a deploy net needs.

Values are named as ``untangle`` names them. Facts about layers are looked up and never searched for: nets have tens
of thousands of layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from prototrt.caffe_proto.layer_types import LayerType, Role, layer_type
from prototrt.caffe_proto.net.data_layers import is_label_by_name, is_source, label_tops
from prototrt.caffe_proto.net.untangle import Untangled
from prototrt.caffe_proto.schema import is_layer_type
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


def facts_of(entry: LayerEntry) -> LayerType:
    """The facts about the layer's type. For Python layers, the name of the class may say more."""
    facts = layer_type(entry.message.type)
    return layer_type(f"{facts.name} {entry.message.python_param.layer}") if facts.is_code else facts


def is_measure(entry: LayerEntry) -> bool:
    """Whether the layer only measures: its type says so, or the type is unknown and it has a loss weight or no tops."""
    facts, layer = facts_of(entry), entry.message
    if facts.measures_with is not None and len(layer.bottom) >= facts.measures_with:
        return True
    if facts.role is Role.COMPUTES and (facts.is_code or not is_layer_type(layer.type)):
        return bool(layer.bottom) and (not layer.top or any(layer.loss_weight))
    return facts.role is Role.MEASURE


@dataclass(frozen=True)
class Wiring:
    """The layers of a net, and which values they read and make."""

    entries: Sequence[LayerEntry]
    names: Untangled

    def layers(self) -> Iterator[tuple[LayerEntry, tuple[str, ...], tuple[str, ...]]]:
        """Each layer with its bottoms and its tops."""
        return zip(self.entries, self.names.bottoms, self.names.tops, strict=True)

    @cached_property
    def ends(self) -> frozenset[str]:
        """The outputs of the net."""
        return frozenset(self.names.outputs)

    @cached_property
    def leading_to_ends(self) -> frozenset[str]:
        """The outputs of the net, and the values from which layers that measure nothing compute them."""
        leading = set(self.ends)
        for entry, bottoms, tops in reversed([*self.layers()]):
            if not is_measure(entry) and not leading.isdisjoint(tops):
                leading.update(bottoms)
        return frozenset(leading)

    @cached_property
    def makers(self) -> Mapping[str, int]:
        """For each value, the layer that makes it."""
        return {value: index for index, tops in enumerate(self.names.tops) for value in tops}

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The values that come from data layers and inputs."""
        sources = (
            tops for entry, _, tops in self.layers() if is_source(entry) or entry.message.type == "Input"
        )
        return frozenset(value for tops in sources for value in tops)


@dataclass(frozen=True)
class Roles:
    """The layers that only serve training, and the values that only exist there.

    ``labels`` are values that come only from labels, ``measured`` those that come from a loss. Of the layers of unknown
    types, ``comparing`` end the net with labels, and ``changing`` change values by labels. ``helped`` says which loss
    an auxiliary loss helps to train.
    """

    wiring: Wiring
    labels: frozenset[str]
    measured: frozenset[str]
    comparing: frozenset[int]
    changing: frozenset[int]
    helped: Mapping[int, int]

    def measures(self, index: int) -> bool:
        return index in self.comparing or is_measure(self.wiring.entries[index])

    def passed(self, index: int) -> int:
        """How many tops of the layer are its bottoms when the net is deployed."""
        return _passed(self.wiring, index, self.changing)

    def predictions(self, index: int) -> list[str]:
        """The bottoms of a measure that the net computes, not the labels. Some losses take both in any order."""
        bottoms = self.wiring.names.bottoms[index]
        count = facts_of(self.wiring.entries[index]).predictions
        others = (self.wiring.inputs, self.labels, self.measured)
        computed = [value for value in bottoms if not any(value in values for values in others)]
        chosen = [value for value in bottoms[:count] if value in computed] or computed[:count]
        return [unmasked for value in chosen for unmasked in self._unmasked(value)]

    def _unmasked(self, value: str) -> list[str]:
        """The value, or the prediction in it if an Eltwise masked that prediction with labels."""
        index = self.wiring.makers.get(value)
        if index is None:  # no layer makes it
            return [value]
        bottoms = self.wiring.names.bottoms[index]
        if self.wiring.entries[index].message.type != "Eltwise" or self.labels.isdisjoint(bottoms):
            return [value]
        return [
            source for bottom in bottoms if bottom not in self.labels for source in self._unmasked(bottom)
        ]

    @cached_property
    def needed(self) -> frozenset[str]:
        """The values from which the deploy net computes its predictions and its outputs."""
        helping = {value for helper in self.helped for value in self.predictions(helper)}
        needed: set[str] = set()
        for index, (entry, bottoms, tops) in reversed([*enumerate(self.wiring.layers())]):
            if self.measures(index):
                predictions = self.predictions(index)
                needed.update(() if helping.issuperset(predictions) else predictions)
                continue
            if not is_source(entry):
                needed.update(self.wiring.ends.intersection(tops) - self.measured - self.labels)
            if count := self.passed(index):
                pairs = zip(bottoms[:count], tops, strict=False)
                needed.update(bottom for bottom, top in pairs if top in needed)
            elif not needed.isdisjoint(tops):
                needed.update(bottoms)
        return frozenset(needed)


def roles_of(wiring: Wiring) -> Roles:
    """The roles, by one walk from the data to the losses."""
    walk = _Origins(wiring)
    for index in range(len(wiring.entries)):
        walk.visit(index)
    return Roles(
        wiring,
        labels=frozenset(walk.labels),
        measured=frozenset(walk.measured),
        comparing=frozenset(walk.comparing),
        changing=frozenset(walk.changing),
        helped=_auxiliary_losses(wiring),
    )


@dataclass
class _Origins:
    """Where the values come from that the walk has seen so far."""

    wiring: Wiring
    labels: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)
    comparing: set[int] = field(default_factory=set)
    changing: set[int] = field(default_factory=set)

    def visit(self, index: int) -> None:
        entry = self.wiring.entries[index]
        bottoms, tops = self.wiring.names.bottoms[index], self.wiring.names.tops[index]
        if self._compares(index):
            self.comparing.add(index)
        elif self._changes_by_labels(index):
            self.changing.add(index)
        if index in self.comparing or is_measure(entry):
            self.measured.update(tops[:1] if facts_of(entry).shows_answer else tops)
        elif not self.measured.isdisjoint(bottoms):
            self.measured.update(tops)
        elif is_source(entry):
            blobs = label_tops(entry)
            pairs = zip(entry.message.top, tops, strict=True)
            self.labels.update(value for blob, value in pairs if blob in blobs)
        elif bottoms and self.labels.issuperset(bottoms):
            self.labels.update(tops)
        elif count := _passed(self.wiring, index, self.changing):
            self.labels.update(tops[count:])

    def _compares(self, index: int) -> bool:
        """Whether a layer of an unknown type ends the net, and reads labels beside what the net computes."""
        wiring = self.wiring
        is_end = wiring.ends.issuperset(wiring.names.tops[index])
        if is_layer_type(wiring.entries[index].message.type) or not is_end:
            return False
        labels = self._labels_of(index)
        return bool(labels) and not wiring.inputs.union(labels).issuperset(wiring.names.bottoms[index])

    def _changes_by_labels(self, index: int) -> bool:
        """Whether a layer of an unknown type changes by labels what only losses read.

        Forks for faces do that to the score of the right class.
        """
        layer, bottoms = self.wiring.entries[index].message, self.wiring.names.bottoms[index]
        if is_layer_type(layer.type) or len(bottoms) < 2 or not layer.top:
            return False
        if self.wiring.names.tops[index][0] in self.wiring.leading_to_ends:
            return False
        labels = self._labels_of(index)
        return bool(labels) and bottoms[0] not in labels and bottoms[0] not in self.wiring.inputs

    def _labels_of(self, index: int) -> set[str]:
        """The labels among the bottoms of a layer."""
        layer, bottoms = self.wiring.entries[index].message, self.wiring.names.bottoms[index]
        return {
            value
            for blob, value in zip(layer.bottom, bottoms, strict=True)
            if value in self.labels or (value in self.wiring.inputs and is_label_by_name(blob))
        }


def _passed(wiring: Wiring, index: int, changing: set[int] | frozenset[int]) -> int:
    return 1 if index in changing else facts_of(wiring.entries[index]).passes_on


def _auxiliary_losses(wiring: Wiring) -> Mapping[int, int]:
    """Losses that only help to train the layers before them, such as GoogLeNet's loss1 and loss2, with the main ones.

    Such a loss compares with the same labels as another one of its type, and weighs less. Losses of
    several tasks have different labels.
    """
    rivals: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for index, (entry, bottoms, _) in enumerate(wiring.layers()):
        if facts_of(entry).answer:
            rivals.setdefault((entry.message.type, bottoms[1:]), []).append(index)
    weights = {index: weight_of(wiring.entries[index]) for losses in rivals.values() for index in losses}
    mains = ((losses, max(losses, key=lambda index: weights[index])) for losses in rivals.values())
    return {index: main for losses, main in mains for index in losses if weights[index] < weights[main]}


def weight_of(loss: LayerEntry) -> float:
    """The weight of a loss."""
    weights = loss.message.loss_weight
    return float(weights[0]) if weights else 1.0
