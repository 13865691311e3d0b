"""Protobuf text, read field by field. Who asks for the fields of a block walks a tree that is never built."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.text.tokens import (
    BLANKS,
    FLOAT,
    LONGEST,
    STRING,
    WORD,
    Token,
    TokenKind,
    tokens,
)

FieldPath = tuple[str, ...]
"""The names of the messages and of the field that lead to a value."""
CLOSING = {"{": "}", "<": ">", "[": "]"}
_NUMBER = rf"(?: 0[xX][0-9a-fA-F]+ | {FLOAT} ) (?! [.\w] )"
_SCALAR = rf"(?: {STRING} | (?: - {BLANKS} )? (?: {WORD} | {_NUMBER} ) )"
_NAME = re.compile(
    rf"{BLANKS} (?: ( {WORD} ) {BLANKS} (?: (:) {BLANKS} )? ([{{<\[])? )?", re.VERBOSE | re.ASCII
)
"""The name of a field, with its colon and the sign that opens its value, as far as they are there."""
_VALUE = re.compile(rf"( {_SCALAR} ) {BLANKS}", re.VERBOSE | re.ASCII)
_BLANKS = re.compile(rf"(?= [ \t\r\n\v\f\#] ) {BLANKS}", re.VERBOSE)
_QUOTES = ("'", '"')
_SEPARATORS = (",", ";")
_DEEPEST = 100
"""Blocks within each other. Those of Caffe's messages are five deep."""


class TextField(NamedTuple):
    """A field, or one element of its list. Whoever gets a field that opens a block or a list reads that next."""

    name: str
    offset: int
    has_colon: bool
    value: str
    """As it is written; the sign that opens a block or a list; empty if neither follows."""
    value_offset: int


class BrokenTextError(Exception):
    """The structure of the text is broken at ``line``: nothing after this place can be trusted."""

    def __init__(
        self, line: int, path: FieldPath, problem: str, because: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(problem)
        self.line, self.path, self.problem, self.because, self.fix = line, path, problem, because, fix


class Fields:
    """The fields of one file. They are read while they are taken: all of them would take much more memory."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.place = 0
        """Where reading goes on."""
        self._line_ends = [match.start() for match in re.finditer("\n", text)]

    def line(self, offset: int) -> int:
        return bisect_right(self._line_ends, offset - 1) + 1

    def token_at(self, offset: int) -> Token:
        """The next token. Raises ``UnreadableFileError`` where it is none, or what follows it: that says more."""
        token, *_ = islice(self.tokens(offset), 2)
        return token

    def tokens(self, start: int) -> Iterator[Token]:
        """All tokens from an offset on, but for comments."""
        for token in tokens(self.text, start):
            if token.kind is TokenKind.UNKNOWN:
                raise self._unreadable(token.offset)
            if len(token.text) > LONGEST and token.kind is not TokenKind.COMMENT:
                raise self._too_long(token.text, token.offset)
            if token.kind is TokenKind.END:
                token = token._replace(offset=max(len(self.text.rstrip()) - 1, 0))
            if token.kind is not TokenKind.COMMENT:
                yield token

    def fields(self, path: FieldPath, block: TextField | None = None) -> Iterator[TextField]:
        """The fields of a block that was just opened, or of the file. ``path`` leads to them.

        Raises ``BrokenTextError`` for a broken structure, ``UnreadableFileError`` for what is no token.
        """
        closing = CLOSING[block.value] if block else ""
        text = self.text
        while True:
            match = _NAME.match(text, self.place)
            assert match is not None  # it matches nothing, too
            name, colon, opening = match.groups()
            self.place = place = match.end()
            if name is not None:
                if place - match.start(1) > LONGEST:
                    self._refuse_long(match.start(1))
                if opening:
                    yield TextField(name, match.start(1), colon is not None, opening, place - 1)
                    self._take(*_SEPARATORS)
                else:
                    yield TextField(
                        name, match.start(1), colon is not None, self._value() if colon else "", place
                    )
                    if text[self.place : self.place + 1] in _SEPARATORS:
                        self.place += 1
            elif text[place : place + 1] == closing:
                self.place += len(closing)
                return
            elif text[place : place + 1] != "#":  # one match reads a limited number of comments
                raise self._no_field(path, block)

    def elements(self, of: TextField, path: FieldPath) -> Iterator[TextField]:
        """The elements of a list that was just opened, as fields of its name."""
        if self._take("]"):
            return
        while True:
            is_block = self._take("{", "<")
            place = self.place - is_block
            yield of._replace(value=self.text[place] if is_block else self._value(), value_offset=place)
            if self._take("]"):
                return
            if not self._take(","):
                raise self.error_at(self.place, path, "found {}, expected , or ] in the list")

    def skip(self, opening: TextField, path: FieldPath) -> None:
        """Read past a block or a list that was just opened, whatever is in it."""
        awaited = [CLOSING[opening.value]]
        for token in self.tokens(self.place):
            if token.kind is TokenKind.END:
                raise self._cut_short(awaited[-1], path, opening)
            if token.text in CLOSING:
                awaited.append(CLOSING[token.text])
                self.refuse_depth(len(path) + len(awaited), token.offset, path)
            elif token.text in CLOSING.values():
                if token.text != awaited.pop():
                    raise self.error_at(token.offset, path, "found {}, but nothing is open")
                if not awaited:
                    self.place = token.offset + 1
                    return

    def refuse_depth(self, depth: int, offset: int, path: FieldPath) -> None:
        if depth > _DEEPEST:
            raise self.error_at(offset, path[:1], f"there are more than {_DEEPEST} blocks within each other")

    def error_at(
        self, offset: int, path: FieldPath, problem: str, because: str | None = None, fix: str | None = None
    ) -> BrokenTextError:
        """The error for a broken structure at an offset. ``{}`` in its words is the token there."""
        token = self.token_at(offset)
        return BrokenTextError(self.line(token.offset), path, problem.replace("{}", str(token)), because, fix)

    def _value(self) -> str:
        """The scalar that is next, as it is written; empty if it is none. Strings in a row are one."""
        begin, text = self.place, self.text
        match = _VALUE.match(text, begin)
        if match is None:
            return ""
        self.place, end = match.end(), match.end(1)
        while text[self.place : self.place + 1] in _QUOTES and text[begin] in _QUOTES:
            match = _VALUE.match(text, self.place)
            if match is None:
                break
            self.place, end = match.end(), match.end(1)
        if self.place - begin > LONGEST:
            self._refuse_long(begin)
        return text[begin:end]

    def _refuse_long(self, begin: int) -> None:
        """Raise for a token that is too long between an offset and the present place."""
        for token in self.tokens(begin):
            if token.offset >= self.place:
                return

    def _take(self, *signs: str) -> bool:
        """Whether one of these signs is next; if so it is read."""
        while match := _BLANKS.match(self.text, self.place):
            self.place = match.end()
        is_next = self.text[self.place : self.place + 1] in signs
        self.place += is_next
        return is_next

    def _no_field(self, path: FieldPath, block: TextField | None) -> BrokenTextError:
        token = self.token_at(self.place)
        if block and token.kind is TokenKind.END:
            return self._cut_short(CLOSING[block.value], path, block)
        if not block and token.text in ("}", ">"):
            return self.error_at(
                self.place, path, "{} closes nothing", fix="remove it, or add what it should close"
            )
        return self.error_at(self.place, path, "found {}, expected the name of a field")

    def _cut_short(self, closing: str, path: FieldPath, of: TextField) -> BrokenTextError:
        return self.error_at(
            len(self.text),
            path,
            f"the file ends here, expected {closing}",
            f"{of.name} was opened at line {self.line(of.offset)}",
            f"add the missing {closing}, or get the file again if it was cut short",
        )

    def _too_long(self, token: str, offset: int) -> UnreadableFileError:
        return UnreadableFileError(
            f"{token[:20]}... has {len(token):,} characters, expected at most {LONGEST:,}",
            where=f"{self.file}:{self.line(offset)}",
            fix="shorten it, or get the file again if it is damaged",
        )

    def _unreadable(self, offset: int) -> UnreadableFileError:
        where = f"{self.file}:{self.line(offset)}"
        rest = self.text[offset : offset + 80].split("\n", 1)[0]
        end = self.text.find("\n", offset) % (len(self.text) + 1)
        if end - offset > LONGEST:
            return self._too_long(self.text[offset:end], offset)
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
