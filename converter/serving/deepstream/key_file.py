"""Key files of GLib, as which Gst-nvinfer reads its configs.

Source: GLib's ``gkeyfile.c`` and its documentation of ``GKeyFile``. Blanks before a line do not count. Only ``#``
begins a comment. A group that is there twice is one, and of two equal keys the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

Groups: TypeAlias = dict[str, dict[str, str]]
"""The values of a file by group and key, with their escapes."""

_BLANKS = " \t\n\f\r"
_GROUP = re.compile(r"\[([^\[\]\x00-\x1f\x7f]+)\][ \t]*")
_KEY = re.compile(r"[^=\[\]]+(?:(?<! )\[[\w.@-]+\])?")
_ESCAPES = {"": "", "s": " ", "n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_LETTERS = {character: letter for letter, character in _ESCAPES.items() if character.strip(" ")}


class KeyFileError(ValueError):
    """A line that GLib does not read."""


def groups_of(text: str) -> Groups:
    """The groups of a file. Raises ``KeyFileError``."""
    groups: Groups = {}
    group = None
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = line.lstrip(_BLANKS)
        if not line or line.startswith("#"):
            continue
        if header := _GROUP.fullmatch(line):
            group = groups.setdefault(header[1], {})
            continue
        key, equals, value = line.partition("=")
        key = key.rstrip(_BLANKS)
        if not equals or not _KEY.fullmatch(key) or "\0" in line:
            raise KeyFileError(f"line {number} is no group, key or comment")
        if group is None:
            raise KeyFileError(f"line {number} is before the first group")
        group[key] = value.lstrip(_BLANKS)
    return groups


def unescape(value: str) -> str:
    """What a value means as a text. An escape that GLib lacks stays as it is."""
    return re.sub(r"\\(.|\Z)", lambda match: _ESCAPES.get(match[1], match[0]), value, flags=re.DOTALL)


def list_of(value: str) -> list[str]:
    """The texts of a value with a list."""
    items = re.findall(r"(?:\\.|[^;\\])+", value, re.DOTALL)
    return [unescape(item.replace("\\;", ";")) for item in items]


def escape(text: str) -> str:
    """The value that means the text."""
    value = "".join(f"\\{_LETTERS[character]}" if character in _LETTERS else character for character in text)
    return re.sub("^ +", lambda match: r"\s" * len(match[0]), value)


def text_of(groups: Mapping[str, Mapping[str, str]], comments: Mapping[str, str]) -> Iterator[str]:
    """The lines of groups, with a comment before some keys."""
    for name, keys in groups.items():
        yield from ("", f"[{name}]")
        for key, value in keys.items():
            yield from ([f"# {comments[key]}"] if key in comments else [])
            yield f"{key}={value}".replace("\r", "\\r")
