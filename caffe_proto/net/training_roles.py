"""What the layers of a training net are for: which only serve training, and which values a deploy net needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.layer_types import Role
from prototrt.caffe_proto.net.data_layers import is_label_by_name, is_source, label_tops
from prototrt.caffe_proto.net.wiring import ARITHMETIC, Wiring, facts_of, has_facts, is_measure, learns
from prototrt.caffe_proto.schema import is_layer_type
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


@dataclass(frozen=True)
class Roles:
    """The layers that only serve training. ``helped`` says which loss an auxiliary loss helps to train."""

    wiring: Wiring
    origins: Origins
    helped: Mapping[int, int]

    def measures(self, index: int) -> bool:
        return index in self.origins.comparing or is_measure(self.wiring.entries[index])

    def predictions(self, index: int) -> list[str]:
        """The bottoms of a measure that the net computes, not the labels. Some losses take both in any order."""
        bottoms = self.wiring.names.bottoms[index]
        count = facts_of(self.wiring.entries[index]).predictions
        computed = self._computed_bottoms(bottoms)
        chosen = [value for value in bottoms[:count] if value in computed] or computed[:count]
        plain = dict.fromkeys(unmasked for value in chosen for unmasked in self._predictions_in(value))
        return [value for value in plain if not self._follows(value, plain)]

    def _computed_bottoms(self, bottoms: tuple[str, ...]) -> list[str]:
        """Those that are no labels: what the net learns, or else what layers make."""
        origins, makers = self.origins, self.wiring.makers
        others = self.wiring.inputs | origins.labels | origins.measured
        made = [value for value in bottoms if value in makers and value not in others]
        computed = [value for value in made if value not in origins.fixed]
        if origins.labels.isdisjoint(bottoms):  # then what labels have changed is the label
            changed = {self.wiring.names.tops[index][0] for index in origins.changing}
            computed = [value for value in computed if value not in changed] or computed
        return computed or made

    def _predictions_in(self, value: str) -> list[str]:
        """The value, or the predictions in it if layers without weights changed them by labels."""
        if value not in self.origins.masked:
            return [value]
        return [
            unmasked for source in self.origins.sources(value) for unmasked in self._predictions_in(source)
        ]

    def _follows(self, value: str, predictions: Collection[str]) -> bool:
        """Whether plain arithmetic makes the value of another prediction: a loss compares the two."""
        sources = self.origins.sources(value)
        return len(sources) == 1 and (sources[0] in predictions or self._follows(sources[0], predictions))

    def bottoms(self, index: int) -> tuple[str, ...]:
        """What a layer that stays reads when the net is deployed: no labels, if it is a decoder."""
        bottoms = self.wiring.names.bottoms[index]
        is_compared = self.origins.is_compared_in(index)
        return bottoms[: facts_of(self.wiring.entries[index]).labels_at] if is_compared else bottoms

    @cached_property
    def needed_values(self) -> frozenset[str]:
        """The values from which the deploy net computes its predictions and its outputs."""
        helping = {value for helper in self.helped for value in self.predictions(helper)}
        needed: set[str] = set()
        for index, (entry, bottoms, tops) in reversed([*enumerate(self.wiring.layers())]):
            if self.measures(index):
                predictions = self.predictions(index)
                needed.update(() if helping.issuperset(predictions) else predictions)
                continue
            if not is_source(entry):
                ends = self.wiring.ends.intersection(tops)
                needed.update(ends - self.origins.measured - self.origins.labels)
            if count := self.origins.passed_tops(index):
                pairs = zip(bottoms[:count], tops, strict=False)
                needed.update(bottom for bottom, top in pairs if top in needed)
            elif not needed.isdisjoint(tops):
                needed.update(self.bottoms(index))
        return frozenset(needed)


def roles_of(wiring: Wiring) -> Roles:
    """The roles, by one walk from the data to the losses."""
    origins = Origins(wiring)
    for index in range(len(wiring.entries)):
        origins.visit(index)
    return Roles(wiring, origins, _auxiliary_losses(wiring))


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


@dataclass
class Origins:
    """What a walk from the data to the losses finds.

    ``given`` are the values that layers without weights make of data: losses compare with them. Among them are
    ``labels``, which come from labels and ``constants`` alone, and what layers of targets make. ``masked`` are
    predictions that plain arithmetic changed by labels. ``measured`` come from a loss. Of the layers,
    ``comparing`` end the net with labels, and ``changing``, of unknown types, change values by labels before a loss.
    """

    wiring: Wiring
    labels: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)
    masked: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)
    comparing: set[int] = field(default_factory=set)
    changing: set[int] = field(default_factory=set)

    def visit(self, index: int) -> None:
        """Take in one layer. The layers before it are known."""
        if self._compares(index):
            self.comparing.add(index)
        elif self._changes_by_labels(index):
            self.changing.add(index)
        entry, tops = self.wiring.entries[index], self.wiring.names.tops[index]
        if index in self.comparing or is_measure(entry):
            self.measured.update(tops[:1] if facts_of(entry).shows_answer else tops)
        elif not self.measured.isdisjoint(self.wiring.names.bottoms[index]):
            self.measured.update(tops)
        elif is_source(entry):
            self._take_in_data(index)
        elif count := self.passed_tops(index):
            self._pass_on(index, count)
        else:
            self._compute(index)

    def passed_tops(self, index: int) -> int:
        """How many tops of the layer are its bottoms when the net is deployed."""
        return 1 if index in self.changing else facts_of(self.wiring.entries[index]).passes_on

    def is_compared_in(self, index: int) -> bool:
        """Whether a decoder reads labels, too, and its last top says how well they agree."""
        count = facts_of(self.wiring.entries[index]).labels_at
        return count is not None and len(self.wiring.names.bottoms[index]) > count

    def _take_in_data(self, index: int) -> None:
        """Take in data and labels. What follows a label and only serves losses is one, whatever it is called."""
        entry, tops = self.wiring.entries[index], self.wiring.names.tops[index]
        blobs, has_label = label_tops(entry), False
        for blob, value in zip(entry.message.top, tops, strict=True):
            if blob in blobs or (has_label and value not in self.wiring.used_values):
                self.labels.add(value)
                has_label = True
        self.fixed.update(tops)

    def _pass_on(self, index: int, count: int) -> None:
        bottoms, tops = self.wiring.names.bottoms[index], self.wiring.names.tops[index]
        for kind in (self.labels, self.fixed):
            kind.update(top for bottom, top in zip(bottoms[:count], tops, strict=False) if bottom in kind)
            kind.update(tops[count:])

    def _compute(self, index: int) -> None:
        entry, tops = self.wiring.entries[index], self.wiring.names.tops[index]
        bottoms = self.read(index)
        if learns(entry):
            return
        if self._makes_labels(index):
            self.labels.update(tops)
            self.fixed.update(tops)
        elif self.fixed.issuperset(bottoms):
            self.fixed.update(tops)
            if self.constants.issuperset(bottoms) and self.wiring.inputs.isdisjoint(tops):
                self.constants.update(tops)
            elif bottoms and self.labels.union(self.constants).issuperset(bottoms):
                self.labels.update(tops)
        elif entry.message.type in ARITHMETIC and not self.labels.union(self.masked).isdisjoint(bottoms):
            self.masked.update(tops)
        if self.is_compared_in(index) and len(tops) > 1:
            self.measured.add(tops[-1])

    def sources(self, value: str) -> list[str]:
        """The predictions of which plain arithmetic makes the value."""
        maker = self.wiring.makers.get(value)
        if maker is None or self.wiring.entries[maker].message.type not in ARITHMETIC:
            return []
        return [bottom for bottom in self.read(maker) if bottom not in self.fixed]

    def read(self, index: int) -> tuple[str, ...]:
        """The bottoms of a layer of which it reads more than the size."""
        return self.wiring.names.bottoms[index][: facts_of(self.wiring.entries[index]).sizes_from]

    def _compares(self, index: int) -> bool:
        """Whether a layer that is no measure by its type measures here: it ends the net, and reads labels.

        A layer of a known type does so with a loss weight alone.
        """
        wiring, labels = self.wiring, self._labels_of(index)
        entry, bottoms = wiring.entries[index], wiring.names.bottoms[index]
        if facts_of(entry).labels_at is not None:  # a decoder, in one fork with the labels alone
            return len(bottoms) == 2 and bottoms[1] in labels
        if not wiring.ends.issuperset(wiring.names.tops[index]):
            return False
        if is_layer_type(entry.message.type):
            is_loss = facts_of(entry).role is Role.COMPUTES and any(entry.message.loss_weight)
            return is_loss and not self.masked.union(labels).isdisjoint(bottoms)
        return bool(labels) and not wiring.inputs.union(labels).issuperset(bottoms)

    def _makes_labels(self, index: int) -> bool:
        """Whether the layer makes labels: its type says so, or it is unknown, reads labels first, and serves losses."""
        entry, bottoms = self.wiring.entries[index], self.wiring.names.bottoms[index]
        if facts_of(entry).makes_labels:
            return True
        return self._serves_losses(index) and bottoms[0] in self.fixed | self._labels_of(index)

    def _changes_by_labels(self, index: int) -> bool:
        """Whether a layer of an unknown type changes by labels what only losses read.

        Forks for faces do that to the score of the right class.
        """
        bottoms = self.wiring.names.bottoms[index]
        return self._serves_losses(index) and bottoms[0] not in self.fixed | self._labels_of(index)

    def _serves_losses(self, index: int) -> bool:
        """Whether a layer of an unknown type reads labels beside others, and its first top leads to losses alone."""
        entry = self.wiring.entries[index]
        facts = facts_of(entry)
        if has_facts(entry) or facts.makes_labels or facts.passes_on or len(entry.message.bottom) < 2:
            return False
        tops = self.wiring.names.tops[index]
        return bool(tops) and tops[0] not in self.wiring.used_values and bool(self._labels_of(index))

    def _labels_of(self, index: int) -> set[str]:
        layer, bottoms = self.wiring.entries[index].message, self.wiring.names.bottoms[index]
        return {
            value
            for blob, value in zip(layer.bottom, bottoms, strict=True)
            if value in self.labels or (value in self.wiring.inputs and is_label_by_name(blob))
        }
