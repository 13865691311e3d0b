"""Mistakes in a net's text, kept until their layer is read completely, and the unknown fields among them.

Rules of users read these fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from prototrt.caffe_proto.common.errors import ConversionError, NetError, Origin, UnsupportedLayerError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.schema import Message, enum_name, is_repeated
from prototrt.caffe_proto.text.fields import CLOSING, BrokenTextError, FieldPath, Fields, TextField
from prototrt.caffe_proto.text.scalars import BadValueError, number_of, split_sign, string

_OF_THE_PLACE = (
    *("name", "type", "bottom", "top", "input", "output"),
    *("blobs", "param", "include", "exclude", "phase"),
)
"""Fields of a layer that describe its place in the net, and its weights."""
_WORDS = {"true": True, "false": False, "inf": float("inf"), "infinity": float("inf"), "nan": float("nan")}


def unknown_fields(findings: Iterable[Finding]) -> dict[str, Any]:
    """The unknown fields of one layer by their names. A block is a dictionary, a repeated field is a list."""
    fields: dict[str, Any] = {}
    for finding in findings:
        value = finding.readable_value
        if value is None:
            continue
        block = fields
        for name in finding.path[2 if finding.path[:2] == ("layers", "layer") else 1 :]:
            block = block.setdefault(name, {})
        _add(block, finding.field or "", value)
    return fields


def fields_of(message: Message, unknown: Mapping[str, Any]) -> dict[str, Any]:
    """All fields that a layer states, except those about its place in the net. A word of an enum is a text."""
    own = {name: value for name, value in _fields_of_message(message).items() if name not in _OF_THE_PLACE}
    return _merge(own, unknown)


def _fields_of_message(message: Message) -> dict[str, Any]:
    return {
        field.name: [_plain(field, each) for each in value] if is_repeated(field) else _plain(field, value)
        for field, value in message.ListFields()
    }


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _fields_of_message(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    # 0.1 rather than the number of 32 bits that is closest to it
    return float(str(np.float32(value))) if field.type == FieldDescriptor.TYPE_FLOAT else value


def _merge(own: Mapping[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    blocks = {
        name: _merge(own[name], value)
        for name, value in unknown.items()
        if isinstance(own.get(name), dict) and isinstance(value, dict)
    }
    return {**own, **unknown, **blocks}


def written_value(text: str) -> Any:
    """The value that a field states, None if it states none. The text begins with the value, or with its block."""
    try:
        ((_, value),) = message_of(f"_: {text}").items()
    except ValueError:
        return None
    return value


def message_of(text: str) -> dict[str, Any]:
    """A message of whatever schema, by its fields. Raises ``ValueError`` for a text that is none."""
    fields = Fields(text, "")
    try:
        return _block(fields, None)
    except (BadValueError, BrokenTextError, ConversionError, TypeError) as error:
        raise ValueError(f"no message: {error}") from error


def _block(fields: Fields, opening: TextField | None) -> dict[str, Any]:
    block: dict[str, Any] = {}
    for field in fields.fields((), opening):
        _add(block, field.name, _value(fields, field))
    return block


def _value(fields: Fields, field: TextField) -> Any:
    if field.value == "[":
        return [_value(fields, element) for element in fields.elements(field, ())]
    if field.value in CLOSING:
        return _block(fields, field)
    if not (field.value and field.has_colon):
        raise fields.error_at(field.value_offset, (), "found {}, expected a value")
    if field.value[0] in "\"'":
        return string(field.value)
    sign, word = split_sign(field.value)
    value: Any = _WORDS.get(word, word) if word.isidentifier() else number_of(word)
    value = float(word.rstrip("fF")) if value is None else value
    return -value if sign else value


def _add(block: dict[str, Any], name: str, value: Any) -> None:
    """Put a field into its block; the values of a repeated one are a list."""
    if name not in block:
        block[name] = value
        return
    if not isinstance(block[name], list):
        block[name] = [block[name]]
    block[name] += value if isinstance(value, list) else [value]


_TOPOLOGY = ("bottom", "exclude", "include", "name", "phase", "top", "type")
"""Fields of a layer that describe its place in the net, not its computation."""


@dataclass(slots=True, eq=False)
class OpenLayer:
    """The layer that is being read. Not frozen: each layer of a large net has one."""

    message: Message
    field: str  # of the net: "layer" or "layers"
    index: int  # in that field
    line: int  # where it begins

    @property
    def name(self) -> str:
        return str(self._innermost.name)

    @property
    def _innermost(self) -> Message:
        is_v0 = self.field == "layers" and self.message.HasField("layer")
        return self.message.layer if is_v0 else self.message

    def origin(self, file: str, line: int) -> Origin | None:
        """None until the text has named the layer."""
        message = self._innermost
        kind = message.type
        if isinstance(kind, int):
            kind = enum_name("V1LayerParameter.LayerType", kind)
        return Origin(file, line, message.name, kind or "no type") if message.name else None


@dataclass(slots=True)
class Finding:
    """A mistake at ``line``, in the message that ``path`` leads to, as in ("layer", "convolution_param").

    ``field`` is the name of the field in that message, where the mistake is about one.
    """

    file: str
    line: int
    layer: OpenLayer | None
    path: FieldPath
    problem: str
    because: str | None = None
    fix: str | None = None
    family: type[ConversionError] = NetError
    field: str | None = None
    is_broken: bool = False  # whether the structure ends here: nothing after this place can be trusted
    is_unknown: bool = False  # whether the mistake is that Caffe's message has no such field
    is_misspelt: bool = False  # whether an unknown field looks like one that Caffe has
    value: str = ""  # of an unknown field, as it is written; empty if it is long

    def error(self) -> ConversionError:
        return self._error(self.problem, self.because, self.fix)

    def drop_warning(self) -> str:
        """The warning for an unknown field that is ignored."""
        return self._error(f'dropped the unknown field "{self.field}"').text

    @property
    def hides_the_net(self) -> bool:
        """Whether the layers of the net, or what they read and write, cannot be known."""
        if self.is_broken or (self.layer is None and not self.is_unknown):
            return True
        if self.layer is None:
            return False
        inside = self.path[2:] if self.path[:2] == ("layers", "layer") else self.path[1:]
        first = (*inside, self.field or "")[0]
        is_misspelt = self.is_unknown and not inside and bool(close_names(first, _TOPOLOGY))
        return is_misspelt or first in _TOPOLOGY

    @property
    def readable_value(self) -> Any:
        """The value of an unknown field, which a user's rule can read; None for other mistakes."""
        return written_value(self.value) if self.is_unknown and self.value else None

    @property
    def can_be_dropped(self) -> bool:
        """Whether this is an unknown field that no output of a net can depend on."""
        return self.is_unknown and self.is_of_training

    @property
    def is_of_fork_net(self) -> bool:
        """Whether a fork of Caffe has this field for whole nets, for example the types that it computes in."""
        return self.layer is None and self.is_unknown and not self.is_misspelt

    @property
    def is_of_training(self) -> bool:
        """Whether this part of the text only describes how weights are learned."""
        return any(name == "param" or name.endswith("_filler") for name in self.path)

    def _error(self, problem: str, because: str | None = None, fix: str | None = None) -> ConversionError:
        error = self.family(
            problem,
            origin=self.layer.origin(self.file, self.line) if self.layer else None,
            where=f"{self.file}:{self.line}",
            blob=".".join(self.path[1:] if self.layer else self.path) or None,
            because=because,
            fix=fix,
        )
        if isinstance(error, UnsupportedLayerError) and error.origin:
            error.lacking = ".".join([error.origin.type, *self.path[1:], self.field or ""])
        error.is_unknown_field = self.readable_value is not None
        return error
