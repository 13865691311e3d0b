"""Messages that name options and commands without their syntax, which differs between surfaces.

``outputs=["fc"]`` in Python is ``outputs: [fc]`` in a list of models, and a flag
on the command line; ``prototrt.calibrate(...)`` is typed ``prototrt calibrate``. So a message keeps
them as data::

    Worded("cut the net before this layer with {}", Option("outputs", ["fc"]))
    Worded("write it with {}", Command("calibrate"))

A ``Worded`` is a string in Python's syntax. Other surfaces convert it to their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.shell_words import joined
from prototrt.caffe_proto.common.visible import visible_line

OptionValue: TypeAlias = (
    bool | int | float | str | Sequence[str] | Mapping[str, Sequence[int | str]] | Mapping[str, str]
)


class SizeSymbol(str):
    """The name of a size that varies, or a formula of such names, in the shape that an option states."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option by its name in Python, and a value for it; without a value, it means the option itself.

    Shapes are mappings from inputs to sizes. A size that the user must know is a letter, one that varies is
    ``SizeSymbol``. Other mappings are from names to texts.
    """

    name: str
    value: OptionValue | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """Options that are given together."""

    each: Sequence[Option]


@dataclass(frozen=True, slots=True)
class Command:
    """A command by its name on the command line, and the files that it is called with.

    ``typed`` are further words, which only the command line has: a function takes other things.
    """

    name: str
    files: Sequence[str] = ()
    typed: Sequence[str] = ()


FUNCTIONS = {
    "batch": "convert_batch",
    "dot": "draw",
    "new-rule": "new_rule",
    "run": "Session",
    "weights set": "set_weights",
}
"""The public functions of commands that have other names."""
WITHOUT_ARGUMENTS = ("doctor", "layers", "selftest")

Named: TypeAlias = Option | Together | Command
Surface: TypeAlias = Callable[[Named], str]
"""How one surface spells an option, several, or a command."""


class Worded(str):
    """A text with options and commands in it; as a plain string it is in Python's words.

    Each ``{}`` of ``template`` is replaced by one of ``parts``: options, commands, other texts, or anything
    that ``str`` takes. A part that is not itself a ``Worded`` is one line, whatever it holds. The template never
    contains names that a user chose: they may contain braces.
    """

    _template: str
    _parts: tuple[object, ...]

    def __new__(cls, template: str, *parts: object) -> Worded:
        text = super().__new__(cls, _fill(template, parts, python_words))
        text._template, text._parts = template, parts
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Worded, (self._template, *self._parts)

    @classmethod
    def joined(cls, separator: str, parts: Iterable[object]) -> Worded:
        """The parts, with the separator between them."""
        each = [cls("{}", part) for part in parts]
        return cls(separator.join(["{}"] * len(each)), *each)

    def with_parts(self, change: Callable[[object], object]) -> Worded:
        """The text with other parts, ``change`` of each."""
        return type(self)(self._template, *map(change, self._parts))

    def by(self, surface: Surface, *, whole: bool = False) -> str:
        """The text in the surface's words; ``whole``: with all that it shortens."""
        return _fill(self._template, self._parts, surface, whole)


class ShortText(str):
    """A long text as a part of a ``Worded``: as a string it is ``short``."""

    short: str
    whole: str

    def __new__(cls, short: str, whole: str) -> ShortText:
        text = super().__new__(cls, short)
        text.short, text.whole = short, whole
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return ShortText, (self.short, self.whole)


def no_effect(options: Sequence[Option], because: str) -> Worded:
    """The warning of options that change nothing. It names no file: models of a list may share it."""
    have = "has" if len(options) == 1 else "have"
    return Worded("{} {} no effect: {}", Worded.joined(", ", options), have, because)


def plural(count: int, thing: str) -> str:
    """As in ``1 bottom`` and ``2 bottoms``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def shortened(text: str, most: int = 160) -> str:
    """The text, or its beginning and how many characters it has."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


MOST_SHOWN = 60


def excerpt(text: str) -> str:
    """The text, or how it begins: a message must not repeat a file."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


MOST_LISTED = 10


def listed(items: Sequence[str], separator: str = ", ", most: int = MOST_LISTED) -> str:
    """The items, or the first of them and how many more there are; a part of a ``Worded`` still has them all."""
    if len(items) <= most:
        return Worded.joined(separator, items)
    first, rest = Worded.joined(separator, items[:most]), f"{len(items) - most:,}"
    before = " " if separator == ", " else separator
    return ShortText(
        Worded.joined(before, [first, Worded("and {} more", rest)]), Worded.joined(separator, items)
    )


def worded(text: str, surface: Surface, *, whole: bool = False) -> str:
    """Any text in the surface's words."""
    if isinstance(text, ShortText):
        return worded(text.whole if whole else text.short, surface, whole=whole)
    return text.by(surface, whole=whole) if isinstance(text, Worded) else text


def _fill(template: str, parts: Sequence[object], surface: Surface, whole: bool = False) -> str:
    return template.format(*(_part(part, surface, whole) for part in parts))


def _part(part: object, surface: Surface, whole: bool) -> str:
    if isinstance(part, Option | Together | Command):
        return surface(part)
    if isinstance(part, Worded | ShortText):
        return worded(part, surface, whole=whole)
    return visible_line(str(part))  # a name in it must not look like a line of the message


def options_in(text: str | None) -> set[str]:
    """The names of the options that a text has as data."""
    parts = text._parts if isinstance(text, Worded) else ()
    inner = [options_in(part) for part in parts if isinstance(part, str)]
    several = (option for part in parts if isinstance(part, Together) for option in part.each)
    return {part.name for part in (*parts, *several) if isinstance(part, Option)}.union(*inner)


def python_words(named: Named) -> str:
    """As a keyword argument or a call: ``shapes={"data": (1, 3, 224, 224)}``, ``prototrt.calibrate(...)``."""
    if isinstance(named, Command):
        rest = [] if named.name in WITHOUT_ARGUMENTS else ["..."]
        arguments = ", ".join([*map(json.dumps, named.files), *rest])
        return f"prototrt.{FUNCTIONS.get(named.name, named.name)}({arguments})"
    return ", ".join(map(_keyword, named.each)) if isinstance(named, Together) else _keyword(named)


def command_words(command: Command) -> str:
    """As it is typed: ``prototrt convert predict_net.pb init_net.pb``."""
    return joined(["prototrt", *command.name.split(), *command.files, *command.typed])


def _keyword(option: Option) -> str:
    return option.name if option.value is None else f"{option.name}={_in_python(option.value)}"


def _in_python(value: OptionValue) -> str:
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(name)}: {_tuple(sizes)}' for name, sizes in value.items())}}}"
    return json.dumps(value)


def _tuple(sizes: Sequence[int | str]) -> str:
    if isinstance(sizes, str):
        return json.dumps(sizes)
    texts = [json.dumps(size) if isinstance(size, SizeSymbol) else str(size) for size in sizes]
    return f"({', '.join(texts)}{',' * (len(sizes) == 1)})"
