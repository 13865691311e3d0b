"""Numbers that a program keeps outside of its models: the user gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototrt.caffe_proto.common.errors import NetError, UnreadableFileError
from prototrt.caffe_proto.common.files import value_from_json
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.recognition import read_text


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings by name. Numbers may be written as text, as in the files of makefile/frcnn."""

    values: Mapping[str, Any]

    @classmethod
    def from_source(cls, source: Mapping[str, Any] | str | None) -> Settings:
        """Settings by name, those of a JSON file, or none. Raises ``UnreadableFileError``."""
        return cls(_read(source) if isinstance(source, str) else source or {})

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def number(self, name: str, default: float | None = None) -> float:
        """A number. Without a default it must be stated."""
        setting = self.values.get(name, default)
        try:
            return float(setting)
        except (TypeError, ValueError) as error:
            raise _value_error(name, setting, "a number") from error

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number. Without a default it must be stated."""
        number = self.number(name, default)
        if number != int(number):
            raise _value_error(name, self.values.get(name), "a whole number")
        return int(number)

    def numbers(self, name: str) -> list[float]:
        """Several numbers: a list, or a text with commas."""
        numbers = self.values.get(name)
        parts: Any = numbers.split(",") if isinstance(numbers, str) else numbers
        try:
            return [float(part) for part in parts]
        except (TypeError, ValueError) as error:
            raise _value_error(name, numbers, "numbers") from error


def _read(file: str) -> Mapping[str, Any]:
    fix = 'write an object, as in {"RPN_POST_NMS_TOP_N": 100}'
    try:
        settings = value_from_json(read_text(file, "a JSON file", fix))
    except ValueError as error:
        raise UnreadableFileError("is not JSON", where=file, because=str(error), fix=fix) from error
    if not isinstance(settings, dict):
        raise UnreadableFileError("holds no settings by name", where=file, fix=fix)
    return settings


def _value_error(name: str, value: object, expected: str) -> NetError:
    return NetError(
        f"the setting {name} is {value!r}, expected {expected}",
        fix=f"state {expected} in the file of settings",
    )
