"""Which layers of a file belong to the net, by phase, level and stages; and which to use if those form no whole net.

Source: caffe ``src/caffe/net.cpp``, ``Net::FilterNet`` and ``Net::StateMeetsRule``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain

from prototrt.caffe_proto.common.errors import ConversionError, MissingBlobError, NetError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Together, Worded, listed
from prototrt.caffe_proto.net.data_layers import is_source
from prototrt.caffe_proto.net.deploy import DeployLayers, cut_training
from prototrt.caffe_proto.net.untangle import UntangledNet, untangle
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


_DEPLOYED = "deploy"
"""The stage of the net to deploy, where one file holds all three nets, as DIGITS writes them."""


@dataclass(frozen=True)  # without slots, for the cached properties
class Reading:
    """The layers that belong to a net for one state."""

    state: NetState
    entries: Sequence[LayerEntry]
    file: str

    @cached_property
    def deploy_net(self) -> DeployLayers:
        """The deploy net in it. Raises ``NetError`` if no layer is left."""
        return cut_training(self.entries, self.file)

    @cached_property
    def blob_versions(self) -> UntangledNet:
        """The values of the deploy net. Raises ``NetError`` if no layer is left."""
        return untangle(self.deploy_net.entries, self.file)

    def changes(self, asked: NetState) -> list[Option]:
        """The options that choose this net instead of the requested one."""
        options = []
        if self.state.phase != asked.phase:
            options.append(Option("phase", self.state.phase))
        if self.state.level != asked.level:
            options.append(Option("level", self.state.level))
        if self.state.stages != asked.stages:
            options.append(Option("stages", sorted(self.state.stages)))
        return options


def reading_for(entries: Sequence[LayerEntry], state: NetState, file: str) -> Reading:
    """The layers whose rules suit the state."""
    return Reading(state, [entry for entry in entries if is_included(entry, state, file)], file)


def whole_readings(entries: Sequence[LayerEntry], asked: Reading) -> list[Reading]:
    """The nets for the states closest to the requested one, without missing blobs that some layer makes.

    If nothing is missing for the requested state, that is its net. Otherwise one setting is changed (the
    phase, a stage or the level), then the phase and another one. Readings with the same layers count once.
    """
    if asked.entries and not asked.blob_versions.missing:
        return [asked]
    made = {blob for entry in entries for blob in entry.message.top}
    if asked.entries and made.isdisjoint(asked.blob_versions.missing):
        return [asked]
    for states in (_one_change(entries, asked.state), _two_changes(entries, asked.state)):
        readings = [reading_for(entries, state, asked.file) for state in states]
        whole = [reading for reading in readings if _is_whole(reading, made)]
        if whole:
            return list({tuple(map(id, reading.entries)): reading for reading in reversed(whole)}.values())[
                ::-1
            ]
    return []


def choose(readings: Sequence[Reading], asked: NetState) -> Reading | None:
    """The reading to use: the one to deploy, or any if they differ only in their data, which become inputs."""
    to_deploy = next((reading for reading in readings if _DEPLOYED in reading.state.stages), None)
    if to_deploy is None and len({_computing_layers(reading) for reading in readings}) == 1:
        in_phase = (reading for reading in readings if reading.state.phase == asked.phase)
        return next(in_phase, readings[0])
    return to_deploy


def _computing_layers(reading: Reading) -> tuple[int, ...]:
    return tuple(id(entry) for entry in reading.entries if not is_source(entry))


def _is_whole(reading: Reading, made: Collection[str]) -> bool:
    """Whether there is a deploy net, and no layer of the file makes any blob that it lacks."""
    try:
        errors = reading.blob_versions.errors if reading.entries else None
    except NetError:  # nothing is left
        return False
    return errors is not None and all(
        isinstance(error, MissingBlobError) and error.bottom not in made
        for each in errors.values()
        for error in each
    )


def _one_change(entries: Sequence[LayerEntry], state: NetState) -> Iterator[NetState]:
    yield from (replace(state, phase=phase) for phase in PHASES if phase != state.phase)
    yield from _other_stages_and_levels(entries, state)


def _two_changes(entries: Sequence[LayerEntry], state: NetState) -> Iterator[NetState]:
    for phase in PHASES:
        if phase != state.phase:
            yield from _other_stages_and_levels(entries, replace(state, phase=phase))


def _other_stages_and_levels(entries: Sequence[LayerEntry], state: NetState) -> Iterator[NetState]:
    """The state with one more stage, or with another level, for each one that the rules name."""
    rules = _rules(entries)
    stages = dict.fromkeys(stage for rule in rules for stage in rule.stage)
    yield from (
        replace(state, stages=state.stages | {stage}) for stage in stages if stage not in state.stages
    )
    levels = dict.fromkeys(
        level
        for rule in rules
        for name in ("min_level", "max_level")
        if rule.HasField(name) and (level := getattr(rule, name)) != state.level
    )
    yield from (replace(state, level=level) for level in levels)


def _rules(entries: Sequence[LayerEntry]) -> list[Message]:
    return [rule for entry in entries for rule in chain(entry.message.include, entry.message.exclude)]


def unknown_stage_warnings(entries: Sequence[LayerEntry], asked: Collection[str], file: str) -> Iterator[str]:
    """Warnings of stages that the user asks for, and no rule names, where rules name others."""
    named = [*dict.fromkeys(stage for rule in _rules(entries) for stage in (*rule.stage, *rule.not_stage))]
    for stage in asked if named else ():
        if stage not in named:
            yield Worded(
                "{}: {} changes nothing: the rules of its layers name {}",
                file,
                Option("stages", [stage]),
                listed(named),
            )


def other_reading_warning(reading: Reading, asked: Reading, file: str) -> str:
    """The warning that another net is read instead of the requested one."""
    what = "no layer makes some of the blobs" if asked.entries else "there are no layers"
    options = Together(reading.changes(asked.state))
    return Worded("{}: the net is read with {}: with {}, {}", file, options, asked.state, what)


def explain(
    error: ConversionError, excluded: Sequence[LayerEntry], readings: Sequence[Reading], asked: NetState
) -> ConversionError:
    """The error. If an excluded layer makes the missing blob, the error names that layer."""
    if not isinstance(error, MissingBlobError):
        return error
    maker = next((entry for entry in excluded if error.bottom in entry.message.top), None)
    if maker is None:
        return error
    place = f'layer "{maker.message.name}" (line {maker.line})'
    return MissingBlobError(
        error.problem,
        bottom=error.bottom,
        origin=error.origin,
        because=f"{place}, which makes it, is not in the net for {asked}",
        fix=advice(readings, asked),
        is_computed=bool(readings and maker.message.bottom),
    )


def advice(readings: Sequence[Reading], asked: NetState) -> str:
    """A fix: the options that choose one of the readings."""
    options = [Together(reading.changes(asked)) for reading in readings]
    if options:
        return Worded("choose {}", Worded.joined(" or ", options))
    return "choose a state that includes this layer; its include and exclude rules say which"
