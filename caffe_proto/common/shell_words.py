"""Words of commands for a shell, each on one line, whatever characters are in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from prototrt.caffe_proto.common.visible import visible_line

_LINE_BREAK = "${IFS#??}"
"""As POSIX has it, IFS is a blank, a tab and a line break."""


def quoted(word: str) -> str:
    """The word for any POSIX shell. What would not show is written as octal numbers, which ``printf`` reads."""
    if visible_line(word) == word:
        return shlex.quote(word)
    text = word.rstrip("\n")  # a shell drops line breaks at the end of what a command prints
    octal = "".join(map(_octal, text.encode("utf-8", "surrogateescape")))
    if octal.startswith("-"):  # printf would read it as an option
        octal = f"\\055{octal[1:]}"
    printed = f"$(printf '{octal}')" if text else ""
    return f'"{printed}{_LINE_BREAK * (len(word) - len(text))}"'


def joined(words: Iterable[str]) -> str:
    """A command."""
    return " ".join(map(quoted, words))


def _octal(byte: int) -> str:
    char = chr(byte)
    return char if char.isascii() and (char.isalnum() or char in " _-./:=,x[]") else f"\\{byte:03o}"
