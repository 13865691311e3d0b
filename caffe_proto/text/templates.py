"""Nets that are templates: text in which a program is to fill in numbers and names.

A placeholder is ``${NAME}``, ``$NAME``, or ``{NAME}`` as in Python's format, for which other braces are doubled, unless
the program only replaces names: the forms in published nets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.text.fixes import ANY_VALUE

_PLACEHOLDER = r"""
      \$ \{ \s* (?P<braces> \w+ ) \s* \}
    | \$ (?P<dollar> [A-Za-z_]\w* )
    | \{ (?P<single> [A-Za-z_]\w* ) \}
"""
_PIECE = re.compile(
    rf"""
      (?P<comment> \# [^\n]* )
    | (?P<string> "[^"\\\n]*(?:\\.[^"\\\n]*)*"? | '[^'\\\n]*(?:\\.[^'\\\n]*)*'? )
    | (?P<placeholder> {_PLACEHOLDER} )
    | (?P<brace> \{{\{{ | \}}\}} )
    | (?P<word> [A-Za-z_]\w* )
    """,
    re.VERBOSE,
)
_SINGLE = re.compile(r"\{[A-Za-z_]\w*\}")
_IN_STRING = re.compile(_PLACEHOLDER, re.VERBOSE)
_MOST_PLACEHOLDERS = 400_000
"""Ten for each layer that a file may state."""
_MOST_MISSING = 50
"""Names that a message lists."""


def fill_template(text: str, definitions: Mapping[str, str], file: str) -> str:
    """The text with values in place of placeholders.

    ``definitions`` maps their names to values. A bare name, such as ``cls3x`` in ``num_output: cls3x``, is
    also filled in, unless it is in a string. Raises ``NetError`` for placeholders that have
    no value, and for names that the text lacks.
    """
    if not definitions and not _is_template(text):
        return text
    filling = _TemplateValues(definitions, file, bool(_SINGLE.search(text) and "{{" in text))
    result = _PIECE.sub(filling.piece, text)
    for name in definitions:
        if name not in filling.used:
            _refuse_unused(name, text, file)  # first: it may be a misspelt one of those that are missing
    if filling.missing:
        _refuse_missing(filling.missing, text, file)
    return result


def _is_template(text: str) -> bool:
    # To look for a sign takes a hundredth of the time.
    return ("$" in text or _SINGLE.search(text) is not None) and _IN_STRING.search(text) is not None


class _TemplateValues:
    """The values of names; the names used so far; and the names without a value, each with its first offset.

    With ``doubles``, two braces stand for one.
    """

    def __init__(self, definitions: Mapping[str, str], file: str, doubles: bool) -> None:
        self.definitions = definitions
        self.file = file
        self.left = _MOST_PLACEHOLDERS
        self.doubles = doubles
        self.used: set[str] = set()
        self.missing: dict[str, int] = {}

    def piece(self, match: re.Match[str]) -> str:
        """The text that replaces a piece of the file."""
        whole = match.group()
        if match.lastgroup == "string":
            return _IN_STRING.sub(lambda inner: self._value(_name(inner), inner.group()), whole)
        if match.lastgroup == "brace":
            return whole[0] if self.doubles else whole
        if match.lastgroup == "word":
            return self._value(whole, whole)
        if not match["placeholder"]:
            return whole
        self.left -= 1
        if self.left < 0:
            line = match.string.count("\n", 0, match.start()) + 1
            raise NetError(
                f"this is a template with more than {_MOST_PLACEHOLDERS:,} placeholders",
                where=f"{self.file}:{line}",
                fix="split the net, or get the file again if it is damaged",
            )
        name = _name(match)
        if name not in self.definitions:
            self.missing.setdefault(name, match.start())
        return self._value(name, whole)

    def _value(self, name: str, otherwise: str) -> str:
        if name not in self.definitions:
            return otherwise
        self.used.add(name)
        return self.definitions[name]


def _name(match: re.Match[str]) -> str:
    """The name in a placeholder: the only group within it."""
    return next(match[name] for name in ("braces", "dollar", "single") if match[name])


def _refuse_missing(missing: Mapping[str, int], text: str, file: str) -> None:
    names = list(islice(missing, _MOST_MISSING))
    others = f" and {len(missing) - len(names):,} others" if len(missing) > len(names) else ""
    raise NetError(
        f"this is a template: there are no values for {', '.join(names)}{others}",
        where=f"{file}:{text.count(chr(10), 0, missing[names[0]]) + 1}",
        fix=Worded("give values: {}", Option("define", dict.fromkeys(names, ANY_VALUE))),
    )


def _refuse_unused(name: str, text: str, file: str) -> None:
    names = list(dict.fromkeys(_name(match) for match in _IN_STRING.finditer(text)))
    raise NetError(
        f'a value is given for "{name}", which is not in the file',
        where=file,
        fix=f"the placeholders are {choices(name, names)}"
        if names
        else "leave it out: the net is not a template",
    )
