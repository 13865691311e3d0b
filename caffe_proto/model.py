"""A net as surgery sees it: layers in order, with their bottoms and tops untangled and their stored blobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from prototrt.caffe_proto.common.errors import ConversionError, NetError, Origin
from prototrt.caffe_proto.common.notebook_html import table
from prototrt.caffe_proto.common.records import dataclass, field, fields, replace
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Worded, listed
from prototrt.caffe_proto.schema import Message, message_class, parameter_field
from prototrt.caffe_proto.text.findings import fields_of
from prototrt.caffe_proto.text.marks import MarkedRecurrence
from prototrt.caffe_proto.weights import StoredBlob, Weights


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One layer of a net, in today's form whatever the form of its file.

    ``bottoms`` and ``tops`` name values: where an in-place layer writes over a blob, the values before
    and after have two names. ``message.bottom`` and ``message.top`` are what the user wrote.
    """

    name: str
    type: str
    message: Message  # LayerParameter
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    origin: Origin
    blobs: Sequence[StoredBlob] | None  # None where the weights have no such layer
    # For each param { }: the layer and the index of the blob that it shares, None where it is its own.
    shared: tuple[tuple[str, int] | None, ...] = ()
    problems: tuple[ConversionError, ...] = ()  # must be fixed before the layer is used for anything
    unknown: Mapping[str, Any] = field(default_factory=dict)  # what it states in fields that Caffe lacks

    message_class: ClassVar[Callable[[str], Message]] = staticmethod(message_class)
    """The classes of the framework's messages, by name."""

    @property
    def bottom_word(self) -> str:
        """The framework's word for a blob that a layer reads."""
        return "bottom"

    @property
    def top_word(self) -> str:
        """The framework's word for a blob that a layer writes."""
        return "top"

    @property
    def param(self) -> Message:
        """The parameters of the layer's type, ``relu_param`` for a ReLU. Unset fields read as defaults."""
        field = parameter_field(self.type)
        assert field is not None, (
            f"state the field of {self.type} in caffe_proto/layer_types.py: none has its name"
        )
        return getattr(self.message, field)

    @property
    def fields(self) -> dict[str, Any]:
        """All that the layer states of what it computes, with blocks as dictionaries; for rules of users."""
        return fields_of(self.message, self.unknown)

    def bottom_blob(self, index: int) -> str:
        """The blob by the user's name, for messages."""
        return str(self.message.bottom[index])

    def top_blob(self, index: int) -> str:
        return str(self.message.top[index])

    def __repr__(self) -> str:
        return f"<{self.origin.subject}, {self.origin.operator or f'line {self.origin.line}'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """The classes of messages exist only at run time, so a message is pickled by name."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        message = parts.pop("message")
        return _unpickle, (type(self), message.DESCRIPTOR.name, message.SerializePartialToString(), parts)


def _unpickle(kind: type[Layer], name: str, content: bytes, parts: Mapping[str, Any]) -> Layer:
    message = kind.message_class(name)()
    message.MergeFromString(content)
    return kind(message=message, **parts)


def input_layer(blob: str, file: str) -> Layer:
    """An input that the file does not have."""
    message = message_class("LayerParameter")(name=blob, type="Input", top=[blob])
    return Layer(blob, "Input", message, (), (blob,), Origin(file, 0, blob, "Input"), None)


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A net for one phase, level and set of stages.

    ``framework`` says whose layers they are, "caffe" or "caffe2". ``stored`` are blobs that the
    weights hold under their own names, as Caffe2's do; they are read like those of layers.
    """

    name: str
    file: str
    layers: tuple[Layer, ...]
    weights: Weights
    warnings: tuple[str, ...]
    outputs: tuple[
        str, ...
    ]  # the values that no layer reads, in Caffe's order: sorted by the names of their blobs
    blobs: dict[str, str]  # the user's name of a blob -> the name of its last value
    problems: tuple[ConversionError, ...] = ()  # must be fixed before the net is used for anything
    missing: tuple[str, ...] = ()  # blobs that layers read and no layer writes
    # Shapes of inputs that the file states only in part: None for unknown sizes.
    sizes: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    # Sizes of images that comments and names hint at, by their words.
    size_hints: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    framework: str = "caffe"
    recurrences: Sequence[MarkedRecurrence] = ()  # by marks in the file
    stored: Mapping[str, StoredBlob] = field(default_factory=dict)

    def __repr__(self) -> str:
        what = "operators" if self.framework == "caffe2" else "layers"
        return f"<Model {self.name or '(no name)'}: {len(self.layers)} {what}, from {self.file}>"

    def _repr_html_(self) -> str:
        columns = ("layer", "type", "line", "bottoms", "tops")
        rows = [
            (layer.name, layer.type, layer.origin.line, ", ".join(layer.bottoms), ", ".join(layer.tops))
            for layer in self.layers
        ]
        return table(f"{self.name or '(no name)'}, from {self.file}", columns, rows, self.warnings)

    def with_problems(self, change: Callable[[ConversionError], ConversionError]) -> Model:
        """The same net, with other problems of its layers."""
        layers = [
            replace(layer, problems=tuple(map(change, layer.problems))) if layer.problems else layer
            for layer in self.layers
        ]
        return replace(self, layers=tuple(layers))

    def layer_named(self, name: str) -> Layer:
        """The first layer of that name. Raises ``NetError``."""
        names = [layer.name for layer in self.layers]
        if name not in names:
            fix = Worded("name one of its layers: {}", listed(close_names(name, names) or names))
            raise NetError(f'the net has no layer "{name}"', where=self.file, fix=fix)
        return self.layers[names.index(name)]


def one_layer(model: Model, name: str) -> Model:
    """The net of one layer alone, whose bottoms are inputs under the user's names. Raises ``NetError``.

    A top that is written over a bottom is called ``BLOB@LAYER``.
    """
    layer = model.layer_named(name)
    bottoms = tuple(layer.bottom_blob(index) for index in range(len(layer.bottoms)))
    tops = tuple(
        f"{blob}@{name}" if blob in bottoms else blob
        for blob in (layer.top_blob(index) for index in range(len(layer.tops)))
    )
    return replace(
        model,
        layers=(
            *(input_layer(blob, model.file) for blob in dict.fromkeys(bottoms)),
            replace(layer, bottoms=bottoms, tops=tops),
        ),
        outputs=tops,
        blobs={blob: blob for blob in (*bottoms, *tops)},
        warnings=(),
        problems=(),
        missing=(),
    )
