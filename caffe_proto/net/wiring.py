"""The layers of a net and the values between them, named as ``untangle`` names them.

Facts about layers are looked up and never searched for: nets have tens of thousands of layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.layer_types import LayerType, Role, layer_type
from prototrt.caffe_proto.net.data_layers import is_source
from prototrt.caffe_proto.net.untangle import UntangledNet
from prototrt.caffe_proto.schema import is_layer_type
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry

ARITHMETIC = {
    *("AbsVal", "Add", "Concat", "Eltwise", "Filter", "Flatten"),
    *("Mul", "Power", "Reduction", "Reshape", "Scale", "Sum"),
}
"""The types of the layers by which nets mask a prediction, or write a loss of their own."""


def facts_of(entry: LayerEntry) -> LayerType:
    """The facts about the layer's type. For Python layers, the name of the class may say more."""
    facts = layer_type(entry.message.type)
    return layer_type(f"{facts.name} {entry.message.python_param.layer}") if facts.is_code else facts


def has_facts(entry: LayerEntry) -> bool:
    """Whether it is known what the layer computes: its type is known, and it is no code outside the net."""
    return is_layer_type(entry.message.type) and not facts_of(entry).is_code


def is_measure(entry: LayerEntry) -> bool:
    """Whether the layer only measures: its type says so, or the type is unknown and it has a loss weight or no tops."""
    facts, layer = facts_of(entry), entry.message
    if facts.role is Role.COMPUTES and not has_facts(entry):
        return bool(layer.bottom) and (not layer.top or any(layer.loss_weight))
    return facts.role is Role.MEASURE


def learns(entry: LayerEntry) -> bool:
    """Whether training changes the weights of the layer. Of an unknown type, its settings of parameters say it."""
    return facts_of(entry).learns or (not has_facts(entry) and bool(entry.message.param))


@dataclass(frozen=True)
class Wiring:
    """The layers of a net, and which values they read and make."""

    entries: Sequence[LayerEntry]
    names: UntangledNet

    def layers(self) -> Iterator[tuple[LayerEntry, tuple[str, ...], tuple[str, ...]]]:
        """Each layer with its bottoms and its tops."""
        return zip(self.entries, self.names.bottoms, self.names.tops, strict=True)

    @cached_property
    def ends(self) -> frozenset[str]:
        """The outputs of the net."""
        return frozenset(self.names.outputs)

    @cached_property
    def used_values(self) -> frozenset[str]:
        """What serves more than losses: the outputs, what is read by layers of a net, and from what all of it comes.

        Plain arithmetic and layers of unknown types may serve losses alone.
        """
        used = set(self.ends)
        for entry, bottoms, tops in reversed([*self.layers()]):
            is_of_net = learns(entry) or (has_facts(entry) and entry.message.type not in ARITHMETIC and tops)
            if not is_measure(entry) and (is_of_net or not used.isdisjoint(tops)):
                used.update(bottoms)
        return frozenset(used)

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
