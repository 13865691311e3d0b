"""A training net -> the deploy net in it.

Data layers become Inputs, losses become predictions, and layers that only measure are removed. A warning
reports each such step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.net.data_layers import (
    PartialShape,
    first_size,
    is_source,
    shape_from_fields,
    wrong_sizes,
)
from prototrt.caffe_proto.net.training_roles import Roles, roles_of, weight_of
from prototrt.caffe_proto.net.untangle import untangle
from prototrt.caffe_proto.net.wiring import Wiring, facts_of, is_measure
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry


@dataclass(frozen=True, slots=True)
class DeployLayers:
    """The layers of the deploy net, a warning for each layer that is removed, and the shapes of inputs that
    the file states.
    """

    entries: Sequence[LayerEntry]
    warnings: Sequence[str] = ()
    shapes: Mapping[str, PartialShape] = field(default_factory=dict)


def cut_training(entries: Sequence[LayerEntry], file: str) -> DeployLayers:
    """The deploy net in a net. Raises ``NetError`` if no layer is left."""
    if not any(_serves_training(entry) for entry in entries):
        return DeployLayers(entries)
    cut = _Cut(roles_of(Wiring(entries, untangle(entries, file))), file)
    parts = [(entry, cut.replacement(index)) for index, entry in enumerate(entries)]
    layers = [layer for _, part in parts for layer in part.layers]
    if not layers:
        fix = "give the net for another phase, or the deploy prototxt"
        raise NetError("no layer is left when the training layers are removed", where=file, fix=fix)
    warnings = [f"{entry.origin(file)}: {change}" for entry, part in parts for change in part.changes]
    return DeployLayers(
        layers, warnings, {blob: shape for _, part in parts for blob, shape in part.shapes.items()}
    )


def _serves_training(entry: LayerEntry) -> bool:
    facts = facts_of(entry)
    may_measure = facts.labels_at is not None and len(entry.message.bottom) > 1
    return is_source(entry) or is_measure(entry) or may_measure or facts.makes_labels or facts.passes_on > 0


@dataclass(frozen=True, slots=True)
class _Replacement:
    """What replaces one layer, what to say of that, and the shapes of inputs as far as the file states them."""

    layers: Sequence[LayerEntry] = ()
    changes: Sequence[str] = ()
    shapes: Mapping[str, PartialShape] = field(default_factory=dict)


@dataclass(frozen=True)
class _Cut:
    roles: Roles
    file: str

    @cached_property
    def _kept_values(self) -> frozenset[str]:
        roles, made = self.roles, set[str]()
        for index, (entry, _, tops) in enumerate(roles.wiring.layers()):
            is_whole = self._is_kept(index) and not is_source(entry) and not roles.measures(index)
            made.update(tops if is_whole else roles.needed_values.intersection(tops))
        return frozenset(made)

    @cached_property
    def _layer_names(self) -> frozenset[str]:
        return frozenset(entry.message.name for entry in self.roles.wiring.entries)

    @cached_property
    def _readers(self) -> frozenset[tuple[str, str]]:
        layers = self.roles.wiring.layers()
        return frozenset((value, entry.message.type) for entry, bottoms, _ in layers for value in bottoms)

    @cached_property
    def _read_as_videos(self) -> frozenset[str]:
        """The blobs over which kernels of three axes slide."""
        readers = (entry.message for entry in self.roles.wiring.entries if _slides_over_frames(entry.message))
        return frozenset(blob for reader in readers for blob in reader.bottom)

    @cached_property
    def _losses(self) -> Counter[str]:
        entries = self.roles.wiring.entries
        return Counter(entry.message.name for entry in entries if facts_of(entry).answer)

    def _is_kept(self, index: int) -> bool:
        return not self.roles.needed_values.isdisjoint(self.roles.wiring.names.tops[index])

    def replacement(self, index: int) -> _Replacement:
        """What replaces one layer in the deploy net."""
        entry, names = self.roles.wiring.entries[index], self.roles.wiring.names
        if is_source(entry):
            return self._inputs(index)
        if self.roles.measures(index):
            return self._answer(index)
        if self.roles.origins.passed_tops(index):
            return self._pass_on(index)
        # A Silence hides a blob that would otherwise be an output.
        is_silent = not names.tops[index] and self._kept_values.issuperset(names.bottoms[index])
        if is_silent or self._is_kept(index):
            return self._keep(index)
        return _Replacement(changes=["dropped: the deployed net does not need it"])

    def _keep(self, index: int) -> _Replacement:
        """The layer; of a decoder that also measures, what decodes."""
        entry, count = self.roles.wiring.entries[index], len(self.roles.bottoms(index))
        if count == len(entry.message.bottom):
            return _Replacement([entry])
        layer, labels = message_class("LayerParameter")(), entry.message.bottom[count:]
        layer.CopyFrom(entry.message)
        del layer.bottom[count:]
        measures = [layer.top.pop()] if len(layer.top) > 1 else []
        dropped = " and ".join(f'"{blob}"' for blob in (*labels, *measures))
        change = f"dropped its {dropped}: it only decodes when the net is deployed"
        return _Replacement([replace(entry, message=layer)], [change])

    def _inputs(self, index: int) -> _Replacement:
        entry, tops = self.roles.wiring.entries[index], self.roles.wiring.names.tops[index]
        numbers = [number for number, value in enumerate(tops) if value in self.roles.needed_values]
        blobs = entry.message.top
        shapes = {
            blobs[number]: shape_from_fields(entry, number, has_frames=blobs[number] in self._read_as_videos)
            for number in numbers
        }
        dropped = [
            f'dropped its top "{blob}": the deployed net does not need it'
            for number, blob in enumerate(blobs)
            if number not in numbers
        ]
        became = [f'became the input "{blob}"{_of_shape(shape)}' for blob, shape in shapes.items()]
        layers = [
            self._input(entry, number, shapes[blobs[number]], alone=len(numbers) == 1) for number in numbers
        ]
        sizes = {blob: shape or first_size(entry) for blob, shape in shapes.items()}
        in_file = {blob: each for blob, each in sizes.items() if each}
        return _Replacement(layers, [*dropped, *became], in_file)

    def _input(
        self, entry: LayerEntry, number: int, shape: PartialShape | None, *, alone: bool
    ) -> LayerEntry:
        blob = entry.message.top[number]
        layer = message_class("LayerParameter")(type="Input", top=[blob])
        layer.name = entry.message.name if alone else self._free_name(blob, entry)
        is_whole = shape is not None and None not in shape
        if is_whole:
            layer.input_param.shape.add().dim.extend(shape)
        if number == 0 and entry.message.HasField("transform_param"):
            layer.transform_param.CopyFrom(entry.message.transform_param)
        return LayerEntry(layer, entry.line, findings=() if is_whole else wrong_sizes(entry, self.file))

    def _pass_on(self, index: int) -> _Replacement:
        """The bottoms of a layer that only serves training, under the names of its tops."""
        entry, count = self.roles.wiring.entries[index], self.roles.origins.passed_tops(index)
        tops, layers = self.roles.wiring.names.tops[index], []
        for bottom, top, value in zip(entry.message.bottom[:count], entry.message.top, tops, strict=False):
            if value in self.roles.needed_values and bottom != top:
                name = self._free_name(top, entry)
                layer = message_class("LayerParameter")(name=name, type="Split", bottom=[bottom], top=[top])
                layers.append(LayerEntry(layer, entry.line))
        if index in self.roles.origins.changing:
            return _Replacement(layers, ["dropped: it reads labels, which are known only in training"])
        return _Replacement(layers, ["dropped: it changes data while a net is trained"])

    def _answer(self, index: int) -> _Replacement:
        entry, predictions = self.roles.wiring.entries[index], self.roles.predictions(index)
        if index in self.roles.helped:
            return _Replacement(changes=[self._auxiliary_change(index)])
        kind = facts_of(entry).answer
        if kind is None or not predictions or self._is_shown(kind, predictions[0], entry):
            return _Replacement(changes=["dropped: it only computes a metric"])
        layer = message_class("LayerParameter")(type=kind, bottom=[self._blob(predictions[0])])
        layer.top.append(entry.message.top[1] if len(entry.message.top) > 1 else self._free_blob(entry))
        layer.name = self._free_name(layer.top[0], entry)
        if entry.message.HasField("softmax_param"):
            layer.softmax_param.CopyFrom(entry.message.softmax_param)
        if entry.message.infogain_loss_param.HasField("axis"):
            layer.softmax_param.axis = entry.message.infogain_loss_param.axis
        return _Replacement(
            [LayerEntry(layer, entry.line)], [f'became a {kind}, which makes "{layer.top[0]}"']
        )

    def _is_shown(self, kind: str, prediction: str, loss: LayerEntry) -> bool:
        """Whether the net shows the answer already.

        Before Caffe 1.0 an InfogainLoss read probabilities, so a Softmax stands before it.
        """
        wiring = self.roles.wiring
        is_answer = wiring.entries[wiring.makers[prediction]].message.type == kind
        return (is_answer and loss.message.type == "InfogainLoss") or (prediction, kind) in self._readers

    def _blob(self, value: str) -> str:
        """The user's name of a value that a layer makes."""
        wiring = self.roles.wiring
        maker = wiring.makers[value]
        return str(wiring.entries[maker].message.top[wiring.names.tops[maker].index(value)])

    def _auxiliary_change(self, index: int) -> str:
        entries = self.roles.wiring.entries
        helper, main = entries[index], entries[self.roles.helped[index]]
        return (
            f"dropped: it only helps training, because it has loss_weight {weight_of(helper):g} and measures by the"
            f' same labels as "{main.message.name}" with loss_weight {weight_of(main):g}'
        )

    def _free_blob(self, entry: LayerEntry) -> str:
        is_only = self._losses.total() - len(self.roles.helped) == 1
        name = "prob" if is_only else f"{entry.message.name}_prob"
        if self._losses[entry.message.name] > 1 and entry.message.top:
            name = f"{entry.message.top[0]}_prob"
        return name if name not in self.roles.wiring.names.blobs else f"{name}_{entry.line}"

    def _free_name(self, name: str, entry: LayerEntry) -> str:
        return f"{name}_{entry.line}" if name in self._layer_names else name


def _slides_over_frames(layer: Message) -> bool:
    param = layer.convolution_param
    is_deep = len(param.kernel_size) == 3 or param.HasField("kernel_depth")
    return is_deep or layer.type.lower() == "convolution3d" or layer.type == "NdConvolution"


def _of_shape(shape: PartialShape | None) -> str:
    """As in `` of shape (?, 3, 227, 227)``; nothing for a shape that the file does not state."""
    return "" if shape is None else f" of shape ({', '.join('?' if n is None else str(n) for n in shape)})"
