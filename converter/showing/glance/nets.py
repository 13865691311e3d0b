"""Weights and nets in protobuf's binary form: caffemodels, solver states, ONNX models, nets of Caffe2.

Each function takes the open file. It raises ``UnreadableFileError`` for damage.
Source of the fields' numbers: caffe ``src/caffe/proto/caffe.proto``, onnx ``onnx/onnx.proto``, caffe2
``proto/caffe2.proto``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from prototrt.caffe_proto.caffe2.database import read_database
from prototrt.caffe_proto.caffe2.files import read_net
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wire import Buffer, Field, Wire, fields, signed, varints
from prototrt.caffe_proto.recognition import NETDEF, OpenFile
from prototrt.caffe_proto.schema import enum_name
from prototrt.caffe_proto.text.scalars import text_from_bytes
from prototrt.caffe_proto.weights.damage import damage_errors
from prototrt.caffe_proto.weights.stored_blob import stored_blob
from prototrt.converter.showing.glance.facts import Fact, FileFacts, FileKind, Rows
from prototrt.surgery.ir.shapes import sizes

# Numbers of caffe.proto.
_NET_NAME, _LAYERS, _LAYER = 1, 2, 100
_ITERATION, _LEARNED_NET, _HISTORY = 1, 2, 3
# Numbers of onnx.proto.
_PRODUCER, _PRODUCER_VERSION, _GRAPH, _OPSET, _METADATA = 2, 3, 7, 8, 14
_NODE, _GRAPH_NAME, _INITIALIZER, _INPUT, _OUTPUT = 1, 2, 5, 11, 12
_EXTERNAL = 13  # where a tensor is kept
_ONNX_TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    16: "bfloat16",
    17: "float8",
}
# Numbers of caffe2.proto.
_OP, _EXTERNAL_INPUT, _EXTERNAL_OUTPUT = 2, 7, 8


def caffemodel(file: OpenFile) -> FileFacts:
    """The layers of a caffemodel that have blobs, with the shapes of the blobs."""
    buffer = file.content
    with damage_errors(file.name, file.size, "caffemodel"):
        net = Message.whole(buffer)
        rows: list[Sequence[Fact]] = []
        numbers = 0
        for name, kind, blobs in _layers(net):
            shapes = [
                stored_blob(
                    buffer, blob.start, blob.end, f'{file.name}: layer "{name}"', f"blob {index}"
                ).shape
                for index, blob in enumerate(blobs)
            ]
            numbers += sum(map(prod, shapes))
            rows.append((name, kind, [sizes(shape) for shape in shapes]))
        name = net.text(_NET_NAME) or "(no name)"
    with_blobs = Rows("blobs", ("layer", "type", "shapes"), [row for row in rows if row[2]])
    facts: dict[str, Fact] = {"net": name, "layers": len(rows), "parameters": numbers}
    return FileFacts.of(file, FileKind.CAFFEMODEL, facts, with_blobs)


def _layers(net: Message) -> Iterator[tuple[str, str, list[Message]]]:
    """Name, type and blobs of each layer, in the current form, V1 or V0."""
    for layer in net.each(_LAYER):
        yield layer.text(1), layer.text(2), [*layer.each(7)]
    for layer in net.each(_LAYERS):
        inner = next(layer.each(1), None)
        if inner is not None:  # V0
            yield inner.text(1), inner.text(2), [*inner.each(50)]
        else:
            kind = (layer.numbers(5) or [0])[-1]
            yield layer.text(4), enum_name("V1LayerParameter.LayerType", kind) or str(kind), [*layer.each(6)]


def solver_state(file: OpenFile) -> FileFacts:
    """The iteration that the training has reached, and the file of its weights."""
    buffer = file.content
    with damage_errors(file.name, file.size, "solver state"):
        state = Message.whole(buffer)
        weights = state.text(_LEARNED_NET)
        facts: dict[str, Fact] = {
            "iteration": (state.numbers(_ITERATION) or [0])[-1],
            "weights": weights or "(not stated)",
            "blobs of the solver": sum(1 for _ in state.each(_HISTORY)),
        }
    return FileFacts.of(file, FileKind.SOLVER_STATE, facts, mentions={"weights": weights} if weights else {})


def onnx_model(file: OpenFile) -> FileFacts:
    """Inputs, outputs, state, types of nodes, and the number of parameters."""
    buffer = file.content
    with damage_errors(file.name, file.size, "ONNX model"):
        model = Message.whole(buffer)
        graph = model.one(_GRAPH)
        weights = {tensor.text(8): tensor for tensor in graph.each(_INITIALIZER)}
        counts = Counter(node.text(4) for node in graph.each(_NODE))
        opsets = {each.text(1): (each.numbers(2) or [0])[-1] for each in model.each(_OPSET)}
        facts: dict[str, Fact] = {
            "net": graph.text(_GRAPH_NAME),
            "producer": f"{model.text(_PRODUCER)} {model.text(_PRODUCER_VERSION)}".strip() or "(not stated)",
            "opsets": [f"{domain or 'ai.onnx'} {version}" for domain, version in opsets.items()],
            "inputs": [_tensor(value) for value in graph.each(_INPUT) if value.text(1) not in weights],
            "outputs": [_tensor(value) for value in graph.each(_OUTPUT)],
            "nodes": sum(counts.values()),
            "parameters": sum(prod(tensor.numbers(1)) for tensor in weights.values()),
        }
        further = {"state": _states(model), "weights in": _files_of(weights.values())}
    facts |= {name: lines for name, lines in further.items() if lines}
    return FileFacts.of(file, FileKind.ONNX, facts, _count("operators", counts.elements()))


def _states(model: Message) -> list[str]:
    """The outputs to feed back, as in ``lstm1_h_T -> lstm1_h_0``, from the metadata that prototrt writes."""
    pairs = {each.text(1): each.text(2) for each in model.each(_METADATA)}
    return [
        f"{output} -> {name.removeprefix('recurrence ')}"
        for name, output in pairs.items()
        if name.startswith("recurrence ")
    ]


def _files_of(weights: Iterable[Message]) -> list[str]:
    """The files beside the model that hold its weights."""
    entries = [entry for tensor in weights for entry in tensor.each(_EXTERNAL)]
    return sorted({entry.text(2) for entry in entries if entry.text(1) == "location"})


def _tensor(value: Message) -> str:
    """An input or output, as in ``data float32 1x3x224x224``."""
    tensor = value.one(2).one(1)
    kind = (tensor.numbers(1) or [0])[-1]
    shape = tuple(_dim(dim) for dim in tensor.one(2).each(1))
    return f"{value.text(1)} {_ONNX_TYPES.get(kind, f'type {kind}')} {sizes(shape)}"


def _dim(dim: Message) -> int | str:
    """The number or the name of a size; ``?`` if it has neither."""
    numbers = dim.numbers(1)
    return numbers[-1] if numbers else dim.text(2) or "?"


def caffe2_net(file: OpenFile) -> FileFacts:
    """A predict net with its operators, or an init net with the blobs that it fills."""
    buffer: Buffer = (
        file.content
        if file.kind is NETDEF
        else read_net(file, "a predict net").message.SerializePartialToString()
    )
    with damage_errors(file.name, len(buffer), "Caffe2 net"):
        return _caffe2(file, Message.whole(buffer))


def _caffe2(file: OpenFile, net: Message) -> FileFacts:
    operators = [*net.each(_OP)]
    types = [operator.text(4) for operator in operators]
    name = net.text(1) or "(no name)"
    if all("Fill" in kind for kind in types):
        blobs = [
            (output, kind, sizes(_shape_of_fill(operator)))
            for operator, kind in zip(operators, types, strict=True)
            for output in operator.texts(2)
        ]
        numbers = sum(prod(_shape_of_fill(operator)) for operator in operators)
        facts: dict[str, Fact] = {"net": name, "blobs": len(blobs), "parameters": numbers}
        return FileFacts.of(file, FileKind.INIT_NET, facts, Rows("fills", ("blob", "type", "shape"), blobs))
    return FileFacts.of(file, FileKind.PREDICT_NET, _of_predict_net(net), _count("operators", types))


def _of_predict_net(net: Message) -> dict[str, Fact]:
    return {
        "net": net.text(1) or "(no name)",
        "external inputs": net.texts(_EXTERNAL_INPUT),
        "external outputs": net.texts(_EXTERNAL_OUTPUT),
        "operators of the net": sum(1 for _ in net.each(_OP)),
    }


def _shape_of_fill(operator: Message) -> tuple[int, ...]:
    """The argument ``shape`` of an operator that fills a blob; empty if it has none."""
    return next((tuple(each.numbers(6)) for each in operator.each(5) if each.text(1) == "shape"), ())


def minidb(file: OpenFile) -> FileFacts:
    """The net in a database, and the blobs beside it."""
    net, weights = read_database(file)
    message = Message.whole(net.message.SerializePartialToString())
    shapes = {name: weights.blobs[name].shape for name in weights.names()}
    numbers = sum(map(prod, shapes.values()))
    facts = {**_of_predict_net(message), "blobs": len(shapes), "parameters": numbers}
    types = [operator.text(4) for operator in message.each(_OP)]
    return FileFacts.of(file, FileKind.DATABASE, facts, _count("operators", types))


def _count(title: str, names: Iterable[str]) -> Rows:
    return Rows(title, ("type", "count"), Counter(names).most_common())


@dataclass(frozen=True, slots=True)
class Message:
    """The message in ``buffer[start:end]``. Its methods raise ``WireError`` where that is not a message."""

    buffer: Buffer
    start: int
    end: int

    @classmethod
    def whole(cls, buffer: Buffer) -> Message:
        """The message that fills the buffer."""
        return cls(buffer, 0, len(buffer))

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.end - self.start

    def each(self, number: int) -> Iterator[Message]:
        """The fields of this number, as messages."""
        for item in self._of(number):
            if item.wire is Wire.BYTES:
                yield Message(self.buffer, item.start, item.end)

    def one(self, number: int) -> Message:
        """The last field of this number, as protobuf reads it; an empty message if there is none."""
        return ([*self.each(number)] or [Message(self.buffer, self.end, self.end)])[-1]

    def texts(self, number: int) -> list[str]:
        """The fields of this number, as texts."""
        return [text_from_bytes(self.buffer[each.start : each.end]) for each in self.each(number)]

    def text(self, number: int) -> str:
        """The last field of this number, as text; empty if there is none."""
        return (self.texts(number) or [""])[-1]

    def numbers(self, number: int) -> list[int]:
        """The fields of this number, as signed integers, packed or not."""
        result: list[int] = []
        for item in self._of(number):
            if item.wire is Wire.VARINT:
                result.append(signed(item.value))
            elif item.wire is Wire.BYTES:
                result += map(signed, varints(self.buffer, item.start, item.end))
        return result

    def _of(self, number: int) -> Iterator[Field]:
        return (item for item in fields(self.buffer, self.start, self.end) if item.number == number)
