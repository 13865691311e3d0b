"""Protobuf text, cut into tokens that know their line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum, auto
from itertools import islice, takewhile
from typing import NamedTuple

from prototrt.caffe_proto.common.errors import UnreadableFileError


class TokenKind(Enum):
    WORD = auto()
    INTEGER = auto()
    FLOAT = auto()
    STRING = auto()
    SIGN = auto()
    END = auto()
    COMMENT = auto()


class Token(NamedTuple):
    kind: TokenKind
    text: str
    offset: int

    def __str__(self) -> str:
        """As a message quotes it, shortened where it is long."""
        if self.kind is TokenKind.END:
            return "the end of the file"
        return self.text if len(self.text) <= 40 else f"{self.text[:37]}..."


_LONGEST = 1 << 20
"""Characters of a token. The longest in real nets are parameters of Python layers."""
# The number of comments is limited: for each repetition, Python's regular expressions take memory.
_BLANKS = r"[ \t\r\n\v\f]* (?: \#[^\n]* (?: \n [ \t\r\n\v\f]* | \Z ) ){,1000}"
# Backslash pairs are read as one, so that \" does not end a string. A string never spans lines.
_TOKEN = re.compile(
    rf"""
    {_BLANKS} (?:
      (?P<WORD> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<INTEGER> 0[xX][0-9a-fA-F]+ | [0-9]+ ) (?![.\w])
    | (?P<FLOAT> (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? [fF]? ) (?![.\w])
    | (?P<STRING> "[^"\\\n]*(?:\\.[^"\\\n]*){{,{_LONGEST}}}" | '[^'\\\n]*(?:\\.[^'\\\n]*){{,{_LONGEST}}}' )
    | (?P<SIGN> [{{}}<>\[\]:;,/-] )
    | (?P<END> \Z )
    | (?P<COMMENT> (?= \# ) )
    | [\s\S] )
    """,
    re.VERBOSE | re.ASCII,
)
"""A token after blanks. A character that begins no token matches outside the groups, so that none is skipped."""
MOST_KEPT = 4096
"""Tokens of the value of an unknown field."""
_KINDS = {group: TokenKind[name] for name, group in _TOKEN.groupindex.items()}
_PLAIN_FIELD = re.compile(
    rf"""
    (?P<name> [A-Za-z_]\w* ) {_BLANKS} : {_BLANKS}
    (?: "(?P<string> [^"\\\n]{{,{_LONGEST}}} )" | (?P<word> [-+.\w]+ ) (?![-+.\w]) )
    {_BLANKS} (?= [A-Za-z_}}] )
    """,
    re.VERBOSE | re.ASCII,
)
"""A field of one value, in front of another field or the end of its message. What follows proves the value complete."""


class Tokens:
    """The tokens of one file, with one token of look-ahead.

    They are cut while they are taken: all tokens of a large file would take much more memory than its text.
    """

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._text = text
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self.go_to(0)

    def go_to(self, offset: int) -> None:
        """Continue with the token that begins at this offset, or after blanks there."""
        self._rest = self._cut(offset)
        self.ahead = next(self._rest)
        """The token that will be taken next."""

    def plain_field(self, offset: int) -> re.Match[str] | None:
        """The field that begins at this offset: its name, and its value in the group "string" or "word".

        None if it is not a plain one. To take it token by token gives the same, but takes four times as long.
        """
        return _PLAIN_FIELD.match(self._text, offset)

    def list_until(self, offset: int, closing: str) -> str | None:
        """The text from the offset to the next closing sign; None without one."""
        end = self._text.find(closing, offset)
        return None if end < 0 else self._text[offset:end]

    def line(self, offset: int) -> int:
        return bisect_right(self._line_ends, offset - 1) + 1

    def since(self, first: Token) -> tuple[Token, ...]:
        """The tokens that have been taken, from ``first`` on: a few thousand at most."""
        end = len(self._text) if self.ahead.kind is TokenKind.END else self.ahead.offset
        cut = takewhile(lambda token: token.kind is not TokenKind.END, self._cut(first.offset))
        return tuple(islice(takewhile(lambda token: token.offset < end, cut), MOST_KEPT))

    def take(self) -> Token:
        """The next token. Raises ``UnreadableFileError`` if no token follows it."""
        token = self.ahead
        self.ahead = next(self._rest, token)  # nothing follows the end
        return token

    def take_if(self, *signs: str) -> bool:
        """Whether the next token was one of these signs; if so it is taken."""
        if self.ahead.text in signs:  # a string would have its quotes
            self.take()
            return True
        return False

    def _cut(self, start: int = 0) -> Iterator[Token]:
        for match in _TOKEN.finditer(self._text, start):
            group = match.lastindex
            if group is None:
                raise self._unreadable(match.end() - 1)
            kind = _KINDS[group]
            if kind is TokenKind.END:
                break
            if kind is TokenKind.COMMENT:
                continue
            if match.end() - match.start(group) > _LONGEST:
                raise self._too_long(match[group], match.start(group))
            yield Token(kind, match[group], match.start(group))
        yield Token(TokenKind.END, "", max(len(self._text.rstrip()) - 1, 0))

    def _too_long(self, token: str, offset: int) -> UnreadableFileError:
        return UnreadableFileError(
            f"{token[:20]}... has {len(token):,} characters, expected at most {_LONGEST:,}",
            where=f"{self.file}:{self.line(offset)}",
            fix="shorten it, or get the file again if it is damaged",
        )

    def _unreadable(self, offset: int) -> UnreadableFileError:
        where = f"{self.file}:{self.line(offset)}"
        rest = self._text[offset : offset + 80].split("\n", 1)[0]
        end = self._text.find("\n", offset) % (len(self._text) + 1)
        if end - offset > _LONGEST:
            return self._too_long(self._text[offset:end], offset)
        if rest[0] in "\"'":
            return UnreadableFileError(
                f"a string begins here and does not end on this line: {rest[:40]}",
                where=where,
                fix=f"close the string with {rest[0]}",
            )
        if rest[0].isdigit() or rest[0] == ".":
            return UnreadableFileError(
                f"{rest.split()[0][:40]} is neither a number nor a name",
                where=where,
                fix="write a number, or put quotes around text",
            )
        return UnreadableFileError(
            f"the character {rest[0]!r} has no meaning here",
            where=where,
            fix='remove it, start a comment with "#", or put quotes around a text',
        )
