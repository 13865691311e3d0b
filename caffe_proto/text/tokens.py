"""Protobuf text, cut into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

LONGEST = 1 << 20
"""Characters of a token. The longest in real nets are parameters of Python layers."""
# The number of comments is limited: for each repetition, Python's regular expressions take memory.
BLANKS = r"[ \t\r\n\v\f]* (?: \#[^\n]* (?: \n [ \t\r\n\v\f]* | \Z ) ){,1000}"
WORD = "[A-Za-z_][A-Za-z0-9_]*"
INTEGER = "(?: 0[xX][0-9a-fA-F]+ | [0-9]+ )"
FLOAT = r"(?: (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? [fF]? )"
# Backslash pairs are read as one, so that \" does not end a string. A string never spans lines.
STRING = (
    rf'(?: "[^"\\\n]*(?:\\.[^"\\\n]*){{,{LONGEST}}}"'
    rf" | '[^'\\\n]*(?:\\.[^'\\\n]*){{,{LONGEST}}}' )"
)
_TOKEN = re.compile(
    rf"""
    [ \t\r\n\v\f]* (?:
      (?P<WORD> {WORD} )
    | (?P<INTEGER> {INTEGER} ) (?![.\w])
    | (?P<FLOAT> {FLOAT} ) (?![.\w])
    | (?P<STRING> {STRING} )
    | (?P<SIGN> [{{}}<>\[\]:;,/-] )
    | (?P<COMMENT> \#[^\n]* )
    | (?P<END> \Z )
    | (?P<UNKNOWN> ["'][^\n]* | [.\w]+ | [\s\S] ) )
    """,
    re.VERBOSE | re.ASCII,
)
"""What is no token is read to its end: to look into it for others from each of its characters would take long."""


class TokenKind(Enum):
    WORD = auto()
    INTEGER = auto()
    FLOAT = auto()
    STRING = auto()
    SIGN = auto()
    COMMENT = auto()
    END = auto()
    UNKNOWN = auto()


_KINDS = {group: TokenKind[name] for name, group in _TOKEN.groupindex.items()}


class Token(NamedTuple):
    kind: TokenKind
    text: str
    offset: int

    def __str__(self) -> str:
        """As a message quotes it, shortened where it is long."""
        if self.kind is TokenKind.END:
            return "the end of the file"
        return self.text if len(self.text) <= 40 else f"{self.text[:37]}..."


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """All tokens from an offset on, each cut when it is asked for; the last is the end.

    What is none is of an unknown kind: a string that does not end on its line, a number with letters, or a character.
    """
    for match in _TOKEN.finditer(text, start):
        group = match.lastindex or 0  # never 0
        kind = _KINDS[group]
        yield Token(kind, match[group], match.start(group))
        if kind is TokenKind.END:
            return
