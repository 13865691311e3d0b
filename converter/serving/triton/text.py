"""Messages in the text form of protobuf, as Triton reads them from ``config.pbtxt``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from prototrt.converter.files.companions.cpp_header import literal


class Enum(str):
    """A value of an enumeration, which is written without quotes: ``TYPE_FP32``."""

    __slots__ = ()


Scalar: TypeAlias = str | bool | int | float
Field: TypeAlias = "Scalar | Mapping[str, Field] | Sequence[Scalar] | Sequence[Mapping[str, Field]]"
Message: TypeAlias = Mapping[str, Field]
"""The fields of a message by name. A key that begins with ``#`` is a comment, and its value is not read."""

_STEP = "  "


def text_of(message: Message, indent: str = "") -> str:
    """The text of a message, a field on each line."""
    return "".join(
        f"{indent}{name}\n" if name.startswith("#") else f"{indent}{_field(name, value, indent)}\n"
        for name, value in message.items()
    )


def _field(name: str, value: Field, indent: str) -> str:
    if isinstance(value, Mapping):
        return f"{name} {_in_braces(value, indent)}"
    if isinstance(value, (str, bool, int, float)):
        return f"{name}: {_scalar(value)}"
    parts = [
        _in_braces(part, indent + _STEP) if isinstance(part, Mapping) else _scalar(part) for part in value
    ]
    if any(isinstance(part, Mapping) for part in value):
        inner = f",\n{indent}{_STEP}".join(parts)
        return f"{name} [\n{indent}{_STEP}{inner}\n{indent}]"
    return f"{name}: [ {', '.join(parts)} ]" if parts else f"{name}: [ ]"


def _in_braces(message: Message, indent: str) -> str:
    return f"{{\n{text_of(message, indent + _STEP)}{indent}}}"


def _scalar(value: Scalar) -> str:
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
