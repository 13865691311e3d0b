"""Words of commands for a shell, each on one line, whatever characters are in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from prototrt.caffe_proto.common.visible import visible_line


def quoted(word: str) -> str:
    """The word for any POSIX shell. What would not show is written as octal numbers, which ``printf`` reads.

    A shell drops line breaks at the end of such a word.
    """
    if visible_line(word) == word:
        return shlex.quote(word)
    return f"\"$(printf '{''.join(map(_octal, word.encode('utf-8', 'surrogateescape')))}')\""


def joined(words: Iterable[str]) -> str:
    """A command."""
    return " ".join(map(quoted, words))


def _octal(byte: int) -> str:
    char = chr(byte)
    return char if char.isascii() and (char.isalnum() or char in " _-./:=,x[]") else f"\\{byte:03o}"
