"""What the layers of a training net are for: which only serve training, and which values a deploy net needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.net.data_layers import is_source
from prototrt.caffe_proto.net.value_origins import Origins
from prototrt.caffe_proto.net.wiring import Wiring, facts_of, is_measure
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
