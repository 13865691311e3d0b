"""Which layers of a file belong to the net, by phase, level and stages.

Source: caffe ``src/caffe/net.cpp``, ``Net::FilterNet`` and ``Net::StateMeetsRule``.
"""

from __future__ import annotations

from dataclasses import dataclass

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.options import Phase
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry

PHASES: tuple[Phase, ...] = ("TRAIN", "TEST")  # numbered in this order


@dataclass(frozen=True, slots=True)
class NetState:
    """What a net is built for. A layer's include and exclude rules are tested against it."""

    phase: Phase = "TEST"
    level: int = 0
    stages: frozenset[str] = frozenset()

    def __str__(self) -> str:
        stages = f"stages {', '.join(sorted(self.stages))}" if self.stages else "no stage"
        return f"phase {self.phase}, level {self.level} and {stages}"


def is_included(entry: LayerEntry, state: NetState, file: str) -> bool:
    """Whether a layer belongs to the net: any include rule met, or no exclude rule met."""
    include, exclude = entry.message.include, entry.message.exclude
    if include and exclude:
        raise NetError(
            "the layer has include rules and exclude rules, expected only one kind",
            origin=entry.origin(file),
            fix="rewrite them all as include rules, or all as exclude rules",
        )
    if include:
        return any(_meets(state, rule) for rule in include)
    return not any(_meets(state, rule) for rule in exclude)


def _meets(state: NetState, rule: Message) -> bool:
    if rule.HasField("phase") and PHASES[rule.phase] != state.phase:
        return False
    if rule.HasField("min_level") and state.level < rule.min_level:
        return False
    if rule.HasField("max_level") and state.level > rule.max_level:
        return False
    return state.stages.issuperset(rule.stage) and state.stages.isdisjoint(rule.not_stage)


def differs_in_training(layer: Message, state: NetState) -> bool:
    """Whether Caffe would train the layer, and then compute something different from surgery.

    Source: caffe ``dropout_layer.cpp``, ``batch_norm_layer.cpp``, ``pooling_layer.cu``; a layer may state
    its own phase (``src/caffe/net.cpp``, ``Net::Init``).
    """
    phase = PHASES[layer.phase] if layer.HasField("phase") else state.phase
    if phase != "TRAIN":
        return False
    pooling = layer.pooling_param
    return (
        (layer.type == "Dropout" and layer.dropout_param.dropout_ratio != 0)
        or (layer.type == "BatchNorm" and not layer.batch_norm_param.HasField("use_global_stats"))
        or (layer.type == "Pooling" and pooling.pool == pooling.STOCHASTIC)
        or layer.type == "DenseBlock"
    )
