"""One value of protobuf text -> one Python value, by the type of its field and with Caffe's strictness."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.schema import Message, is_repeated
from prototrt.caffe_proto.text.tokens import BLANKS, FLOAT, INTEGER, TokenKind, tokens

RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
"""The types of whole numbers, and the smallest and the largest number of each."""
_BOOLS = {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False}
_INFINITIES = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_SIMPLE_ESCAPES = dict(zip("abfnrtv\\'\"?", "\a\b\f\n\r\t\v\\'\"?", strict=True))
_QUOTES = ("'", '"')
_MOST_DIGITS = 40
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_MINUS = re.compile(rf"- {BLANKS}", re.VERBOSE)
_INTEGER = re.compile(INTEGER, re.VERBOSE)
_FLOAT = re.compile(FLOAT, re.VERBOSE)
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")

Scalar: TypeAlias = bool | int | float | str | bytes


class BadValueError(Exception):
    """A value does not suit its field. The reader adds the place."""

    def __init__(self, expected: str, actual: str, fix: str | None = None) -> None:
        super().__init__(expected, actual, fix)
        self.expected = expected
        self.actual = actual
        self.fix = fix


@lru_cache(maxsize=4096)
def scalar(field: FieldDescriptor, text: str) -> Scalar:
    """The value that a text means in a field. Nets repeat a few. Raises ``BadValueError`` if it does not suit."""
    return _reader(field)(text)


@cache
def _reader(field: FieldDescriptor) -> Callable[[str], Scalar]:
    kind = field.cpp_type
    if kind in RANGES:
        return partial(_integer, *RANGES[kind])
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return _float
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return _bool
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return partial(_enum, field.enum_type)
    return _bytes if field.type == FieldDescriptor.TYPE_BYTES else string


def split_sign(text: str) -> tuple[str, str]:
    """The minus of a value, and what follows it."""
    match = _MINUS.match(text)
    return ("-", text[match.end() :]) if match else ("", text)


def _shown(text: str) -> str:
    sign, word = split_sign(text)
    return f"{sign}{next(tokens(word))}"


def number_of(word: str) -> int | None:
    """A whole number: decimal, 0x hexadecimal or 0 octal, as in C. None for others, 09, and what fits no type."""
    # Python refuses to convert thousands of digits.
    if len(word) > _MOST_DIGITS or not _INTEGER.fullmatch(word):
        return None
    try:
        return int(word, 16 if word[:2] in ("0x", "0X") else 8 if word.startswith("0") else 10)
    except ValueError:
        return None


def _integer(low: int, high: int, text: str) -> int:
    sign, word = split_sign(text)
    number = number_of(word)
    expected = f"a whole number from {low} to {high}"
    if number is None and word.isdecimal() and len(word) <= _MOST_DIGITS:
        raise BadValueError(expected, f"{_shown(word)} (octal, since it begins with 0)")
    if number is None or not low <= (value := -number if sign else number) <= high:
        raise BadValueError(expected, _shown(text))
    return value


def _float(text: str) -> float:
    if _DECIMAL.fullmatch(text):  # nearly all are
        return float(text)
    sign, word = split_sign(text)
    if word.lower() in _INFINITIES:
        value = _INFINITIES[word.lower()]
    elif _DECIMAL.fullmatch(word) or (_FLOAT.fullmatch(word) and not _INTEGER.fullmatch(word)):
        value = float(word.rstrip("fF"))
    else:
        raise BadValueError("a decimal number", _shown(text))
    return -value if sign else value


def _bool(text: str) -> bool:
    if text in _BOOLS:
        return _BOOLS[text]
    if number_of(text) in (0, 1):
        return number_of(text) == 1
    raise BadValueError("true or false", _shown(text))


def _enum(enum: Message, text: str) -> int:
    sign, word = split_sign(text)
    values = enum.values_by_name
    if text in values:
        return int(values[text].number)
    number = number_of(word)
    # Protobuf would look up what is left of a longer number in 32 bits.
    if number is not None and number < 1 << 31 and int(f"{sign}{number}") in enum.values_by_number:
        return int(f"{sign}{number}")
    bare = word.strip("\"'") if word[:1] in _QUOTES else word
    if bare != word and bare in values:
        raise BadValueError(f"{bare} without quotes", _shown(word), fix="remove the quotes")
    raise BadValueError(choices(bare, list(values)), _shown(text))


def string(text: str) -> str:
    """The text that a value in quotes means."""
    if "\\" not in text and text.find(text[:1], 1) == len(text) - 1 and text[:1] in _QUOTES:  # nearly all
        return text[1:-1]
    return text_from_bytes(_bytes(text))


def _bytes(text: str) -> bytes:
    if text[:1] not in _QUOTES:
        fix = f'put it in quotes: "{text}"' if text else None
        raise BadValueError("a string in quotes", _shown(text), fix=fix)
    return b"".join(unescape(each.text) for each in tokens(text) if each.kind is TokenKind.STRING)


def unescape(text: str) -> bytes:
    """The bytes that a string in quotes stands for."""
    pieces: list[bytes] = []
    end = 1
    for match in _ESCAPE.finditer(text, 1, len(text) - 1):
        pieces += [text[end : match.start()].encode(), _escape(match)]
        end = match.end()
    pieces.append(text[end:-1].encode())
    return b"".join(pieces)


def _escape(match: re.Match[str]) -> bytes:
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


_OTHER_NAMES = {
    ("ConvolutionParameter", name): other
    for name, other in {
        **dict.fromkeys(("hole", "kstride"), "dilation"),
        **dict.fromkeys(("dilation_h", "kstride_h"), "hole_h"),
        **dict.fromkeys(("dilation_w", "kstride_w"), "hole_w"),
    }.items()
}
"""Names of other forks: Caffe's ``dilation`` is DeepLab's ``hole``, and ``kstride`` in fully convolutional forks."""


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
