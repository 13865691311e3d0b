"""Mistakes in a net's text, kept until their layer is read completely, and the unknown fields among them.

Rules of users read these fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from prototrt.caffe_proto.common.errors import ConversionError, NetError, Origin, UnsupportedLayerError
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.schema import Message, enum_name, is_repeated
from prototrt.caffe_proto.text.scalars import BadValueError, number_of, text_from_bytes, unescaped
from prototrt.caffe_proto.text.tokens import MOST_KEPT, Token, TokenKind, Tokens

_OF_THE_PLACE = (
    "name",
    "type",
    "bottom",
    "top",
    "input",
    "output",
    "blobs",
    "param",
    "include",
    "exclude",
    "phase",
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
    return _merged(own, unknown)


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


def _merged(own: Mapping[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    blocks = {
        name: _merged(own[name], value)
        for name, value in unknown.items()
        if isinstance(own.get(name), dict) and isinstance(value, dict)
    }
    return {**own, **unknown, **blocks}


def written_value(tokens: Sequence[Token]) -> Any:
    """The value that the tokens of a field spell, None if they spell none, or are only the first of it.

    They begin with its colon, or with its block.
    """
    rest = _meaningful(tokens)
    if not rest or len(tokens) >= MOST_KEPT:
        return None
    try:
        value = _value(rest)
    except (BadValueError, IndexError, TypeError, ValueError):
        return None
    return None if any(token.text != "," for token in rest) else value


def _meaningful(tokens: Sequence[Token]) -> list[Token]:
    """From the last token to the first, those that change a meaning: a comma keeps two strings apart."""
    return [token for token in reversed(tokens) if token.text not in (":", ";")]


def message_of(text: str) -> dict[str, Any]:
    """A message of whatever schema, by its fields. Raises ``ValueError`` for a text that is none."""
    try:
        tokens, taken = Tokens(text, ""), []
        while tokens.ahead.kind is not TokenKind.END:
            taken.append(tokens.take())
        end = Token(TokenKind.SIGN, "}", len(text))
        rest = [end, *_meaningful(taken)]
        message = _block(rest)
    except (BadValueError, ConversionError, IndexError, TypeError) as error:
        raise ValueError(f"no message: {error}") from error
    if rest:
        raise ValueError("a block ends that did not begin")
    return message


def _value(rest: list[Token]) -> Any:
    """The next value; ``rest`` are the tokens from the last one to the next one."""
    token = rest.pop()
    if token.text in ("{", "<"):
        return _block(rest)
    if token.text == "[":
        values = []
        while rest[-1].text != "]":
            values.append(_value(rest))
            if rest[-1].text == ",":
                rest.pop()
        rest.pop()
        return values
    if token.kind is TokenKind.STRING:
        while rest and rest[-1].kind is TokenKind.STRING:
            token = token._replace(text=token.text[:-1] + rest.pop().text[1:])
        return text_from_bytes(unescaped(token))
    return -_word(rest.pop()) if token.text == "-" else _word(token)


def _block(rest: list[Token]) -> dict[str, Any]:
    block: dict[str, Any] = {}
    while (name := rest.pop()).text not in ("}", ">"):
        if name.text != ",":
            _add(block, name.text, _value(rest))
    return block


def _word(token: Token) -> Any:
    if token.kind is TokenKind.WORD:
        return _WORDS.get(token.text, token.text)
    number = number_of(token)
    # raises ValueError for a sign
    return float(token.text.rstrip("fF")) if number is None else number


def _add(block: dict[str, Any], name: str, value: Any) -> None:
    """Put a field into its block; the values of a repeated one are a list."""
    if name not in block:
        block[name] = value
        return
    before = block[name] if isinstance(block[name], list) else [block[name]]
    block[name] = [*before, *(value if isinstance(value, list) else [value])]


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
    path: tuple[str, ...]
    problem: str
    because: str | None = None
    fix: str | None = None
    family: type[ConversionError] = NetError
    field: str | None = None
    is_broken: bool = False  # whether the structure ends here: nothing after this place can be trusted
    is_unknown: bool = False  # whether the mistake is that Caffe's message has no such field
    is_misspelt: bool = False  # whether an unknown field looks like one that Caffe has
    value: tuple[Token, ...] = ()  # of an unknown field, as it is written

    def error(self) -> ConversionError:
        return self._error(self.problem, self.because, self.fix)

    def dropped(self) -> str:
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
        return written_value(self.value) if self.is_unknown else None

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


class BrokenTextError(Exception):
    """The structure of the text is broken: nothing after this place can be trusted."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.problem)
        self.finding = finding
