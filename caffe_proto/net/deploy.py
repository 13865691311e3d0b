"""A training net -> the deploy net in it.

Data layers become Inputs, losses become predictions, and layers that only measure are removed. A warning
reports each such step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.layer_types import LayerType, Role, layer_type
from prototrt.caffe_proto.net.data_layers import (
    PartialShape,
    is_label_by_name,
    is_source,
    label_tops,
    shape_from_fields,
)
from prototrt.caffe_proto.net.untangle import Untangled, untangle
from prototrt.caffe_proto.schema import Message, is_layer_type, message_class
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


@dataclass(frozen=True, slots=True)
class Deployed:
    """The layers of the deploy net, a warning for each layer that is removed, and the shapes of inputs that
    the file states.
    """

    entries: Sequence[LayerEntry]
    warnings: Sequence[str] = ()
    shapes: Mapping[str, PartialShape] = field(default_factory=dict)


def cut_training(entries: Sequence[LayerEntry], file: str) -> Deployed:
    """The deploy net in a net. Raises ``NetError`` if no layer is left."""
    if not any(is_source(entry) or _is_measure(entry) or _facts(entry).passes_on for entry in entries):
        return Deployed(entries)
    cut = _Cut(entries, untangle(entries, file), file)
    cut.mark()
    kept = [replacement for index in range(len(entries)) for replacement in cut.replacements(index)]
    if not kept:
        fix = "give the net for another phase, or the deploy prototxt"
        raise NetError("no layer is left when the training layers are removed", where=file, fix=fix)
    return Deployed(kept, cut.warnings, cut.shapes)


def _facts(entry: LayerEntry) -> LayerType:
    """The facts about the layer's type. For Python layers, the name of the class may say more."""
    facts = layer_type(entry.message.type)
    return layer_type(f"{facts.name} {entry.message.python_param.layer}") if facts.is_code else facts


def _slides_over_frames(layer: Message) -> bool:
    param = layer.convolution_param
    is_deep = len(param.kernel_size) == 3 or param.HasField("kernel_depth")
    return is_deep or layer.type.lower() == "convolution3d" or layer.type == "NdConvolution"


def _is_measure(entry: LayerEntry) -> bool:
    """Whether the layer only measures: its type says so, or the type is unknown and it has a loss weight or no tops."""
    facts, layer = _facts(entry), entry.message
    if facts.measures_with is not None and len(layer.bottom) >= facts.measures_with:
        return True
    if facts.role is Role.COMPUTES and (facts.is_code or not is_layer_type(layer.type)):
        return bool(layer.bottom) and (not layer.top or any(layer.loss_weight))
    return facts.role is Role.MEASURE


@dataclass
class _Cut:
    """Which values of a net are wanted.

    Values are named as ``untangle`` names them. Facts about each layer are looked up and never searched
    for: nets have tens of thousands of layers.
    """

    entries: Sequence[LayerEntry]
    names: Untangled
    file: str
    needed_blobs: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)  # values that come from a loss
    labels: set[str] = field(default_factory=set)  # values that come only from labels
    comparing: set[int] = field(default_factory=set)  # layers of unknown types that end the net with labels
    changing: set[int] = field(default_factory=set)  # layers of unknown types that change values by labels
    made: set[str] = field(default_factory=set)  # values of layers that are kept
    helped: dict[int, int] = field(default_factory=dict)  # which loss an auxiliary loss helps to train
    warnings: list[str] = field(default_factory=list)
    shapes: dict[str, PartialShape] = field(default_factory=dict)  # of inputs, as far as the file states them

    def mark(self) -> None:
        for index in range(len(self.entries)):
            self._mark_origins(index)
        self._mark_auxiliary()
        for index in reversed(range(len(self.entries))):
            self._mark_needed(index)
        for index, (entry, tops) in enumerate(zip(self.entries, self.names.tops, strict=True)):
            is_whole = self._is_kept(index) and not is_source(entry) and not self._measures(index)
            self.made.update(tops if is_whole else self.needed_blobs.intersection(tops))

    def _is_kept(self, index: int) -> bool:
        return not self.needed_blobs.isdisjoint(self.names.tops[index])

    def _passed(self, index: int) -> int:
        """How many tops of the layer are its bottoms when the net is deployed."""
        return 1 if index in self.changing else _facts(self.entries[index]).passes_on

    def _measures(self, index: int) -> bool:
        return _is_measure(self.entries[index]) or index in self.comparing

    def _compares(self, index: int) -> bool:
        """Whether a layer of an unknown type ends the net, and reads labels beside what the net computes."""
        if is_layer_type(self.entries[index].message.type) or not self._ends.issuperset(
            self.names.tops[index]
        ):
            return False
        labels = self._labels_of(index)
        return bool(labels) and not self._fed.union(labels).issuperset(self.names.bottoms[index])

    def _labels_of(self, index: int) -> set[str]:
        """The labels among the bottoms of a layer."""
        layer, bottoms = self.entries[index].message, self.names.bottoms[index]
        return {
            value
            for blob, value in zip(layer.bottom, bottoms, strict=True)
            if value in self.labels or (value in self._fed and is_label_by_name(blob))
        }

    def _changes_by_labels(self, index: int) -> bool:
        """Whether a layer of an unknown type changes by labels what only losses read.

        Forks for faces do that to the score of the right class.
        """
        layer, bottoms = self.entries[index].message, self.names.bottoms[index]
        if is_layer_type(layer.type) or len(bottoms) < 2 or not layer.top:
            return False
        if self.names.tops[index][0] in self._leading_to_ends:
            return False
        labels = self._labels_of(index)
        return bool(labels) and bottoms[0] not in labels and bottoms[0] not in self._fed

    def _mark_origins(self, index: int) -> None:
        entry, bottoms, tops = self.entries[index], self.names.bottoms[index], self.names.tops[index]
        if self._compares(index):
            self.comparing.add(index)
        elif self._changes_by_labels(index):
            self.changing.add(index)
        if self._measures(index):
            self.measured.update(tops[:1] if _facts(entry).shows_answer else tops)
        elif not self.measured.isdisjoint(bottoms):
            self.measured.update(tops)
        elif is_source(entry):
            labels = label_tops(entry)
            self.labels.update(
                value for blob, value in zip(entry.message.top, tops, strict=True) if blob in labels
            )
        elif bottoms and self.labels.issuperset(bottoms):
            self.labels.update(tops)
        elif count := self._passed(index):
            self.labels.update(tops[count:])

    def _mark_auxiliary(self) -> None:
        """Find losses that only help to train the layers before them, such as GoogLeNet's loss1 and loss2.

        Such a loss compares with the same labels as another one of its type, and weighs less. Losses of
        several tasks have different labels.
        """
        rivals: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        for index, entry in enumerate(self.entries):
            if _facts(entry).answer:
                rivals.setdefault(self._measured_alike(index), []).append(index)
        for losses in rivals.values():
            main = max(losses, key=self._weight)
            self.helped.update((index, main) for index in losses if self._weight(index) < self._weight(main))

    def _measured_alike(self, index: int) -> tuple[str, tuple[str, ...]]:
        return self.entries[index].message.type, self.names.bottoms[index][1:]

    def _weight(self, index: int) -> float:
        weights = self.entries[index].message.loss_weight
        return float(weights[0]) if weights else 1.0

    def _mark_needed(self, index: int) -> None:
        entry, bottoms, tops = self.entries[index], self.names.bottoms[index], self.names.tops[index]
        if self._measures(index):
            if not self._helping.issuperset(self._predictions(index)):
                self.needed_blobs.update(self._predictions(index))
            return
        if not is_source(entry):
            ends = self._ends.intersection(tops)
            self.needed_blobs.update(ends - self.measured - self.labels)
        if count := self._passed(index):
            pairs = zip(bottoms[:count], tops, strict=False)
            self.needed_blobs.update(bottom for bottom, top in pairs if top in self.needed_blobs)
        elif not self.needed_blobs.isdisjoint(tops):
            self.needed_blobs.update(bottoms)

    def _predictions(self, index: int) -> list[str]:
        """The bottoms of a measure that the net computes, not the labels. Some losses take both in any order."""
        bottoms = self.names.bottoms[index]
        count = _facts(self.entries[index]).predictions
        others = (self._fed, self.labels, self.measured)
        computed = [value for value in bottoms if not any(value in values for values in others)]
        chosen = [value for value in bottoms[:count] if value in computed] or computed[:count]
        return [unmasked for value in chosen for unmasked in self._unmasked(value)]

    def _unmasked(self, value: str) -> list[str]:
        """The value, or the prediction in it if an Eltwise masked that prediction with labels."""
        index = self._makers.get(value)
        if index is None:  # no layer makes it
            return [value]
        bottoms = self.names.bottoms[index]
        if self.entries[index].message.type != "Eltwise" or self.labels.isdisjoint(bottoms):
            return [value]
        return [
            source for bottom in bottoms if bottom not in self.labels for source in self._unmasked(bottom)
        ]

    @cached_property
    def _ends(self) -> frozenset[str]:
        """The outputs of the net."""
        return frozenset(self.names.outputs)

    @cached_property
    def _leading_to_ends(self) -> frozenset[str]:
        """The outputs of the net, and the values from which layers that measure nothing compute them."""
        leading = set(self._ends)
        for entry, bottoms, tops in zip(
            reversed(self.entries), reversed(self.names.bottoms), reversed(self.names.tops), strict=True
        ):
            if not _is_measure(entry) and not leading.isdisjoint(tops):
                leading.update(bottoms)
        return frozenset(leading)

    @cached_property
    def _helping(self) -> frozenset[str]:
        """The values that auxiliary losses read."""
        return frozenset(value for helper in self.helped for value in self._predictions(helper))

    @cached_property
    def _makers(self) -> Mapping[str, int]:
        """For each value, the layer that makes it."""
        return {value: index for index, tops in enumerate(self.names.tops) for value in tops}

    @cached_property
    def _fed(self) -> frozenset[str]:
        """The values that come from data layers and inputs."""
        pairs = zip(self.entries, self.names.tops, strict=True)
        feeding = (tops for entry, tops in pairs if is_source(entry) or entry.message.type == "Input")
        return frozenset(value for tops in feeding for value in tops)

    @cached_property
    def _layer_names(self) -> frozenset[str]:
        return frozenset(entry.message.name for entry in self.entries)

    @cached_property
    def _readers(self) -> frozenset[tuple[str, str]]:
        """Each value that a layer reads, with the types of its readers."""
        pairs = zip(self.entries, self.names.bottoms, strict=True)
        return frozenset((value, entry.message.type) for entry, bottoms in pairs for value in bottoms)

    @cached_property
    def _read_as_videos(self) -> frozenset[str]:
        """The blobs over which kernels of three axes slide."""
        readers = (entry.message for entry in self.entries if _slides_over_frames(entry.message))
        return frozenset(blob for reader in readers for blob in reader.bottom)

    @cached_property
    def _losses(self) -> int:
        """The number of losses that become a prediction."""
        return sum(_facts(entry).answer is not None for entry in self.entries) - len(self.helped)

    def replacements(self, index: int) -> list[LayerEntry]:
        """What replaces one layer in the deploy net."""
        entry, tops = self.entries[index], self.names.tops[index]
        if is_source(entry):
            return self._inputs(index)
        if self._measures(index):
            return self._answer(index)
        if self._passed(index):
            return self._passed_on(index)
        # A Silence hides a blob that would otherwise be an output.
        is_silent = not tops and self.made.issuperset(self.names.bottoms[index])
        if is_silent or self._is_kept(index):
            return [entry]
        self._warn(entry, "dropped: the deployed net does not need it")
        return []

    def _inputs(self, index: int) -> list[LayerEntry]:
        entry, tops = self.entries[index], self.names.tops[index]
        numbers = [number for number, value in enumerate(tops) if value in self.needed_blobs]
        for number, blob in enumerate(entry.message.top):
            if number not in numbers:
                self._warn(entry, f'dropped its top "{blob}": the deployed net does not need it')
        return [self._input(entry, number, alone=len(numbers) == 1) for number in numbers]

    def _input(self, entry: LayerEntry, number: int, *, alone: bool) -> LayerEntry:
        blob = entry.message.top[number]
        layer = message_class("LayerParameter")(type="Input", top=[blob])
        layer.name = entry.message.name if alone else self._free_name(blob, entry)
        shape = shape_from_fields(entry, number, has_frames=blob in self._read_as_videos)
        if shape is not None:
            self.shapes[blob] = shape
        note = (
            "" if shape is None else f" of shape ({', '.join('?' if n is None else str(n) for n in shape)})"
        )
        if shape and None not in shape:
            layer.input_param.shape.add().dim.extend(shape)
        self._warn(entry, f'became the input "{blob}"{note}')
        if number == 0 and entry.message.HasField("transform_param"):
            layer.transform_param.CopyFrom(entry.message.transform_param)
        return LayerEntry(layer, entry.line)

    def _passed_on(self, index: int) -> list[LayerEntry]:
        """The bottoms of a layer that only serves training, under the names of its tops."""
        entry, count = self.entries[index], self._passed(index)
        kept = []
        for bottom, top, value in zip(
            entry.message.bottom[:count], entry.message.top, self.names.tops[index], strict=False
        ):
            if value in self.needed_blobs and bottom != top:
                name = self._free_name(top, entry)
                layer = message_class("LayerParameter")(name=name, type="Split", bottom=[bottom], top=[top])
                kept.append(LayerEntry(layer, entry.line))
        with_labels = index in self.changing
        reason = "it reads labels, which are known only in training" if with_labels else ""
        self._warn(entry, f"dropped: {reason or 'it changes data while a net is trained'}")
        return kept

    def _answer(self, index: int) -> list[LayerEntry]:
        entry, predictions = self.entries[index], self._predictions(index)
        if index in self.helped:
            main = self.helped[index]
            because = f"it has loss_weight {self._weight(index):g} and measures by the same labels"
            description = f'"{self.entries[main].message.name}" with loss_weight {self._weight(main):g}'
            self._warn(entry, f"dropped: it only helps training, because {because} as {description}")
            return []
        kind = _facts(entry).answer
        if kind is None or not predictions or (predictions[0], kind) in self._readers:
            self._warn(entry, "dropped: it only computes a metric")  # or the net shows the answer already
            return []
        position = self.names.bottoms[index].index(predictions[0])
        layer = message_class("LayerParameter")(type=kind, bottom=[entry.message.bottom[position]])
        layer.top.append(entry.message.top[1] if len(entry.message.top) > 1 else self._free_blob(entry))
        layer.name = self._free_name(layer.top[0], entry)
        if entry.message.HasField("softmax_param"):
            layer.softmax_param.CopyFrom(entry.message.softmax_param)
        self._warn(entry, f'became a {kind}, which makes "{layer.top[0]}"')
        return [LayerEntry(layer, entry.line)]

    def _free_blob(self, entry: LayerEntry) -> str:
        name = "prob" if self._losses == 1 else f"{entry.message.name}_prob"
        return name if name not in self.names.blobs else f"{name}_{entry.line}"

    def _free_name(self, name: str, entry: LayerEntry) -> str:
        return f"{name}_{entry.line}" if name in self._layer_names else name

    def _warn(self, entry: LayerEntry, what: str) -> None:
        self.warnings.append(f"{entry.origin(self.file)}: {what}")
