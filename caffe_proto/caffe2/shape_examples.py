"""Examples of the shapes of inputs of a Caffe2 net: a letter for each axis, or its size where weights state it.

They tell data from weights among the blobs that an init net fills: PyTorch's mobile exporter writes the image of the
export there, beside the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import TypeAlias

from prototrt.caffe_proto.caffe2.operators import Operator, RecurrentArguments
from prototrt.caffe_proto.caffe2.packed import GATES, PackedLayout
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.model import Layer
from prototrt.caffe_proto.weights import StoredBlob

Example: TypeAlias = tuple[int | str, ...]
UNKNOWN: Example = ("SIZE", "SIZE")
_ALIKE = (
    *("Add", "Alias", "Cast", "Copy", "CopyFromCPUInput", "Dropout", "Elu", "LayerNorm", "LeakyRelu", "Mul"),
    *("Relu", "Sigmoid", "Softmax", "Softsign", "StopGradient", "Sub", "Sum", "Tanh"),
)
"""Operators whose first output has the shape of each input."""
_IMAGES = ("AveragePool", "Conv", "ConvRelu", "MaxPool", "SpatialBN")
_UNITS = {"LSTMUnit": (2, 4), "GRUUnit": (1, 3)}
"""The ends of a step: which input holds the gates, and how many there are."""
_READS_IDS = ("BatchGather", "Gather")
"""Operators whose first input is a table."""
_STATES = {
    "GRUUnit": slice(0, 1),
    "InferenceLSTM": slice(1, 3),
    "LSTMUnit": slice(0, 2),
    "Recurrent": slice(1, 3),
}
"""The inputs that hold states."""


class ShapeExamples:
    """What operators and the stored blobs tell about the shapes of values."""

    def __init__(self, operators: Sequence[Operator], stored: Mapping[str, StoredBlob]) -> None:
        self.operators, self.stored = operators, stored
        self.made: dict[str, int] = {}
        """The last sizes of what operators make, where weights tell them."""
        for operator in operators:
            size = self._output_units(operator)
            if size and operator.tops:
                self.made[operator.tops[0]] = size

    def of(self, name: str) -> Example | None:
        """The shape that the readers of a value need; None if none of them tells."""
        alike = {name}
        for operator in self.operators:
            for place in (place for place, bottom in enumerate(operator.bottoms) if bottom in alike):
                if operator.type in _ALIKE or (operator.type == "ReversePackedSegs" and place == 0):
                    alike.update(operator.tops[:1])
                elif (example := self._read(operator, place)) is not None:
                    return example
        return None

    def _read(self, operator: Operator, place: int) -> Example | None:
        kind, arguments = operator.type, operator.arguments
        if kind == "FC" and place == 0:
            return (*"TN"[2 - arguments.integer("axis", 1) :], self._stored_size(operator, 1, -1, "D"))
        if kind in _IMAGES and place == 0:
            channels = self._stored_size(operator, 1, 1, "C") if kind.startswith("Conv") else "C"
            groups = arguments.integer("group", 1)
            return ("N", channels * groups if isinstance(channels, int) else channels, "H", "W")
        if kind == "PackedInt8BGRANHWCToNCHWCStylizerPreprocess" and place == 0:
            return ("N", "H", "W", 4)
        if kind == "InferenceLSTM" and place < 3:
            first = ("N", "T") if arguments.flag("batch_first") else ("T", "N")
            return (*first, self._stored_size(operator, 3, 1, "D")) if place == 0 else self._stack(operator)
        if kind == "Recurrent" and place < 3:
            return ("T", "N", self._packed_inputs(operator)) if place == 0 else self._stack(operator)
        if (kind, place) in (("ReversePackedSegs", 1), ("LSTMUnit", 3), ("GRUUnit", 2), ("SequenceMask", 1)):
            return ("N",)
        if operator.recurrence is not None:
            return self._recurrent(operator, operator.recurrence, operator.bottoms[place])
        return None

    def _stored_size(self, operator: Operator, place: int, axis: int, letter: str) -> int | str:
        blob = self.stored.get(operator.bottoms[place]) if place < len(operator.bottoms) else None
        return blob.shape[axis] if blob is not None and len(blob.shape) > 1 else letter

    def _stack(self, operator: Operator) -> Example:
        arguments = operator.arguments
        hidden = arguments.integer("hidden_size", 0) or self._stored_size(operator, 4, 1, "H")
        directions = 2 if arguments.flag("bidirectional") else 1
        return (arguments.integer("num_layers", 1) * directions, "N", hidden)

    def _packed_inputs(self, operator: Operator) -> int | str:
        """D, which the number of packed weights tells."""
        arguments, blob = operator.arguments, self.stored.get("".join(operator.bottoms[3:4]))
        mode, hidden = arguments.text("rnn_mode", ""), arguments.integer("hidden_size", 0)
        if blob is None or mode not in GATES or hidden < 1:
            return "D"
        sizes = hidden, arguments.integer("num_layers", 1), 2 if arguments.flag("bidirectional") else 1
        without, count = (PackedLayout(mode, inputs, *sizes).size for inputs in (0, 1))
        inputs, rest = divmod(blob.array.size - without, count - without)
        return inputs if inputs > 0 and not rest else "D"

    def _recurrent(self, operator: Operator, recurrence: RecurrentArguments, name: str) -> Example | None:
        """The shape of a state, of a sequence, or of what the step net reads in each step."""
        inside = ShapeExamples(recurrence.operators, self.stored)
        for state in recurrence.states:
            if operator.bottoms[state.initial] == name:
                links = [link for link in recurrence.links if link.outside == state.buffer]
                sizes = (inside._features(link.inside, recurrence) for link in links)
                # What a step writes stands after the rows that the buffer begins with.
                rows = max((link.offset for link in links if link.inside in recurrence.written), default=1)
                return (max(rows, 1), "N", next((size for size in sizes if size is not None), "H"))
        for link in recurrence.links:
            if link.outside == name:
                return ("T", "N", inside._features(link.inside, recurrence) or "D")
        return inside.of(name)

    def _features(self, name: str, recurrence: RecurrentArguments) -> int | None:
        """How many numbers a value of a step has for each stream."""
        shapes_of_blobs = self.of(name)
        if shapes_of_blobs is not None and isinstance(shapes_of_blobs[-1], int):
            return shapes_of_blobs[-1]
        for operator in self.operators:
            if name in operator.bottoms[:2] and (size := self._units(operator)):
                return size
        return self.made.get(recurrence.written.get(name, name))

    def _units(self, operator: Operator) -> int | None:
        """How many units a LSTMUnit or GRUUnit has, by the number of its gates; None for other operators."""
        place, gates = _UNITS.get(operator.type, (0, 1))
        size = self.made.get(operator.bottoms[place]) if place < len(operator.bottoms) else None
        return size // gates if size and operator.type in _UNITS else None

    def _output_units(self, operator: Operator) -> int | None:
        if operator.type == "FC":
            size = self._stored_size(operator, 1, 0, "")
            return size if isinstance(size, int) else None
        sizes = [self.made[bottom] for bottom in operator.bottoms if bottom in self.made]
        if operator.type == "Concat":
            return sum(sizes) if len(sizes) == len(operator.bottoms) else None
        return next(iter(sizes), None) if operator.type in _ALIKE else None


def example_shapes(
    names: Sequence[str], layers: Sequence[Layer], stored: Mapping[str, StoredBlob]
) -> dict[str, Example]:
    """By input; letters stand for sizes that nothing tells."""
    operators = [layer for layer in layers if isinstance(layer, Operator) and layer.type != "Input"]
    examples = dict.fromkeys(names, UNKNOWN)
    with suppress(ConversionError):  # of an argument, which is raised by the rule that reads it
        shapes_of_blobs = ShapeExamples(operators, stored)
        examples |= {name: example for name in names if (example := shapes_of_blobs.of(name)) is not None}
    return examples


@dataclass(frozen=True, slots=True)
class _BlobOrigin:
    """The blobs of the init net from which a value comes along the data, and whether it met weights on the way."""

    blobs: tuple[str, ...] = ()
    met_weights: bool = False


def data_of(layer: Layer) -> Sequence[str]:
    """The inputs of an operator without those that hold states."""
    states = {*layer.bottoms[_STATES.get(layer.type, slice(0))]}
    if isinstance(layer, Operator) and layer.recurrence is not None:
        states |= {layer.bottoms[state.initial] for state in layer.recurrence.states}
    return [name for name in layer.bottoms if name not in states]


def held_data(layers: Sequence[Layer], stored: Mapping[str, StoredBlob]) -> list[str]:
    """The data bottoms of the first operators among these, where the init net fills them.

    Weights are read at later places. Where several inputs of an operator are computed, the data are those that
    have met weights before; a bias that is only reshaped has not.
    """
    origins = {name: _BlobOrigin((name,)) for name in stored}
    read: set[str] = set()
    for layer in layers:
        origins |= dict.fromkeys(layer.tops, _blob_origin(layer, origins, stored))
        read.update(layer.bottoms)
    ends = [top for layer in layers for top in layer.tops if top not in read]
    data = dict.fromkeys(name for end in ends for name in origins[end].blobs)
    return [name for name in stored if name in data]


def _blob_origin(
    layer: Layer, origins: Mapping[str, _BlobOrigin], stored: Mapping[str, StoredBlob]
) -> _BlobOrigin:
    names = data_of(layer)
    if layer.type in _READS_IDS:
        names = names[::-1]
    read = [origins.get(name, _BlobOrigin()) for name in names]
    met = [each for each in read if each.met_weights]
    if met:
        return _BlobOrigin(tuple(dict.fromkeys(name for each in met for name in each.blobs)), True)
    weights = [name for name in names[1:] if name in stored and stored[name].array.dtype.kind == "f"]
    candidates = [each for each in read if each.blobs]
    if not candidates:
        return _BlobOrigin(met_weights=bool(weights))
    return _BlobOrigin(_data_among(layer, candidates, stored), bool(weights))


_ELEMENTWISE = ("Add", "Div", "Max", "Min", "Mul", "Sub", "Sum")


def _data_among(
    layer: Layer, candidates: Sequence[_BlobOrigin], stored: Mapping[str, StoredBlob]
) -> tuple[str, ...]:
    """The first input; of operators that take both in any order, the largest."""
    if layer.type not in _ELEMENTWISE:
        return candidates[0].blobs
    return max(candidates, key=lambda each: max(prod(stored[name].shape) for name in each.blobs)).blobs
