"""One value of protobuf text -> one Python value, by the type of its field and with Caffe's strictness."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.schema import Message, is_repeated
from prototrt.caffe_proto.text.tokens import Token, TokenKind, Tokens

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_BOOLS = {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False}
_INFINITIES = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_SIMPLE_ESCAPES = dict(zip("abfnrtv\\'\"?", "\a\b\f\n\r\t\v\\'\"?", strict=True))
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)

Scalar: TypeAlias = bool | int | float | str | bytes
ScalarReader: TypeAlias = Callable[[Tokens], Scalar]


class BadValueError(Exception):
    """A value does not suit its field. The reader adds the place."""

    def __init__(self, expected: str, actual: str, fix: str | None = None) -> None:
        super().__init__(expected, actual, fix)
        self.expected = expected
        self.actual = actual
        self.fix = fix


@cache
def scalar_reader(field: FieldDescriptor) -> ScalarReader:
    """What takes one value for ``field``. It raises ``BadValueError`` after taking one that does not suit."""
    kind = field.cpp_type
    if kind in _RANGES:
        return partial(_integer, *_RANGES[kind])
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return _float
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return _bool
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return partial(_enum, field.enum_type)
    return _bytes if field.type == FieldDescriptor.TYPE_BYTES else _string


_PLAIN_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})")
_PLAIN_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def plain_number(field: FieldDescriptor, word: str) -> int | float | None:
    """The value of a number as most files write it, which needs no tokens; None for another text or field."""
    kind = field.cpp_type
    if kind in _RANGES:
        low, high = _RANGES[kind]
        value = int(word) if _PLAIN_INTEGER.fullmatch(word) else None
        return value if value is not None and low <= value <= high else None
    is_float = kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
    return float(word) if is_float and _PLAIN_FLOAT.fullmatch(word) else None


def _signed(tokens: Tokens) -> tuple[str, Token]:
    sign = "-" if tokens.take_if("-") else ""
    return sign, tokens.take()


def _number(text: str) -> int:
    """Decimal, 0x hexadecimal or 0 octal, as in C; ValueError for 09."""
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    return int(text, 8) if text.startswith("0") else int(text)


def number_of(token: Token) -> int | None:
    """The value of a token that is a whole number in a range."""
    if token.kind is not TokenKind.INTEGER or len(token.text) > 40:
        return None
    try:
        return _number(token.text)
    except ValueError:
        return None


def _integer(low: int, high: int, tokens: Tokens) -> int:
    sign, token = _signed(tokens)
    expected = f"a whole number from {low} to {high}"
    # A number longer than this fits no type, and Python refuses to convert thousands of digits.
    if token.kind is not TokenKind.INTEGER or len(token.text) > 40:
        raise BadValueError(expected, f"{sign}{token}")
    try:
        value = int(f"{sign}{_number(token.text)}")
    except ValueError:
        raise BadValueError(expected, f"{token} (octal, since it begins with 0)") from None
    if not low <= value <= high:
        raise BadValueError(expected, f"{sign}{token}")
    return value


def _float(tokens: Tokens) -> float:
    sign, token = _signed(tokens)
    value: float
    if token.kind is TokenKind.FLOAT or (
        token.kind is TokenKind.INTEGER and re.fullmatch("0|[1-9][0-9]*", token.text)
    ):
        value = float(token.text.rstrip("fF"))
    elif token.kind is TokenKind.WORD and token.text.lower() in _INFINITIES:
        value = _INFINITIES[token.text.lower()]
    else:
        raise BadValueError("a decimal number", f"{sign}{token}")
    return -value if sign else value


def _bool(tokens: Tokens) -> bool:
    token = tokens.take()
    if token.kind is TokenKind.WORD and token.text in _BOOLS:
        return _BOOLS[token.text]
    if number_of(token) in (0, 1):
        return number_of(token) == 1
    raise BadValueError("true or false", str(token))


def _enum(enum: Message, tokens: Tokens) -> int:
    sign, token = _signed(tokens)
    values = enum.values_by_name
    if token.kind is TokenKind.WORD and not sign and token.text in values:
        return int(values[token.text].number)
    number = number_of(token)
    # Protobuf would look up what is left of a longer number in 32 bits.
    if number is not None and number < 1 << 31 and int(f"{sign}{number}") in enum.values_by_number:
        return int(f"{sign}{number}")
    bare = token.text.strip("\"'") if token.kind is TokenKind.STRING else token.text
    if token.kind is TokenKind.STRING and bare in values:
        raise BadValueError(f"{bare} without quotes", str(token), fix="remove the quotes")
    raise BadValueError(choices(bare, list(values)), f"{sign}{token}")


def _string(tokens: Tokens) -> str:
    return text_from_bytes(_bytes(tokens))


def _bytes(tokens: Tokens) -> bytes:
    token = tokens.take()
    if token.kind is not TokenKind.STRING:
        is_value = token.kind in (TokenKind.WORD, TokenKind.INTEGER, TokenKind.FLOAT)
        fix = f'put it in quotes: "{token.text}"' if is_value else None
        raise BadValueError("a string in quotes", str(token), fix=fix)
    parts = [token]
    while tokens.ahead.kind is TokenKind.STRING:
        parts.append(tokens.take())
    return b"".join(map(unescaped, parts))


def unescaped(token: Token) -> bytes:
    """The bytes that a string token stands for."""
    if "\\" not in token.text:
        return token.text[1:-1].encode()
    pieces: list[bytes] = []
    end = 1
    for match in _ESCAPE.finditer(token.text, 1, len(token.text) - 1):
        pieces += [token.text[end : match.start()].encode(), _escaped(match)]
        end = match.end()
    pieces.append(token.text[end:-1].encode())
    return b"".join(pieces)


def _escaped(match: re.Match[str]) -> bytes:
    octal, hexadecimal, short, long, simple = match.groups()
    if simple is not None:
        if simple not in _SIMPLE_ESCAPES:
            raise BadValueError("a string", f"the unknown escape {match.group()} in it")
        return _SIMPLE_ESCAPES[simple].encode()
    if octal or hexadecimal:
        return bytes([(int(octal, 8) if octal else int(hexadecimal, 16)) & 255])
    try:
        return chr(int(short or long, 16)).encode()
    except (ValueError, OverflowError):
        raise BadValueError("a string", f"{match.group()}, which is not a character") from None


def text_from_bytes(data: bytes) -> str:
    """The text of bytes in UTF-8. Invalid UTF-8 is read as Latin-1, so that no name is refused or lost."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="surrogateescape")
        return "".join(chr(ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


def text_without_mark(data: bytes) -> str:
    """The text of a file, without byte order mark."""
    return text_from_bytes(data.removeprefix(b"\xef\xbb\xbf"))


_OTHER_NAMES = {("ConvolutionParameter", "hole"): "dilation"}
"""Fields of forks that Caffe adopted under another name: DeepLab's ``hole`` is Caffe's ``dilation``."""


@dataclass(frozen=True, slots=True)
class FieldDefinition:
    """What the reader asks of a field. Descriptors are slow to answer, and nets repeat a few fields."""

    descriptor: FieldDescriptor
    name: str
    is_repeated: bool
    is_message: bool
    is_string: bool

    def store(self, message: Message, value: Scalar) -> None:
        """Put a value into the field of a message; append it if the field is repeated."""
        if self.is_repeated:
            getattr(message, self.name).append(value)
        else:
            setattr(message, self.name, value)


@lru_cache(maxsize=1024)
def field_definition(descriptor: Descriptor, name: str) -> FieldDefinition | None:
    """The field of that name in Caffe, or of the name that a fork gives it."""
    field = descriptor.fields_by_name.get(_OTHER_NAMES.get((str(descriptor.name), name), name))
    if field is None:
        return None
    return FieldDefinition(
        field,
        field.name,
        is_repeated(field),
        is_message=field.message_type is not None,
        is_string=field.type == FieldDescriptor.TYPE_STRING,
    )


@lru_cache(maxsize=4096)
def value_of(field: FieldDescriptor, word: str | None) -> Scalar | None:
    """The value for which a word or a number stands; None if it does not suit the field. Nets repeat a few."""
    if word is None or field.message_type is not None:
        return None
    if (number := plain_number(field, word)) is not None:
        return number
    if field.enum_type is not None and word not in field.enum_type.values_by_name:
        return None
    try:
        tokens = Tokens(word, "")
        value = scalar_reader(field)(tokens)
    except (BadValueError, UnreadableFileError):
        return None
    return value if tokens.ahead.kind is TokenKind.END else None
