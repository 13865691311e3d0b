"""Sizes from the text that an ``OpenSize`` is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from prototrt.caffe_proto.common.wording import excerpt
from prototrt.surgery.ir.dimensions import OpenSize, Range, Size, range_of

_MOST_TOKENS, _DEEPEST = 1000, 100
"""Of a text that a person or a manifest writes; deep nets have sizes of some hundred."""
_MOST_TERMS, _LONGEST, _LARGEST = 1000, 10_000, (1 << 63) - 1
"""Of what it comes to: terms of a product, characters of a size that is written out, and a number."""
_DIGITS = len(str(_LARGEST))
_TOKEN = re.compile(r"//|[-+*()]|[A-Za-z0-9_.]+")


def size_from_text(text: str, symbols: Mapping[str, Range]) -> Size:
    """The size of a text such as ``(H+1)//2``. Raises ``ValueError`` if it is none, or names another symbol."""
    tokens = _TOKEN.findall(text)
    shown = repr(excerpt(text))
    if len(tokens) > _MOST_TOKENS:
        raise ValueError(f"{shown} has {len(tokens)} parts, expected at most {_MOST_TOKENS}")
    reader = _SizeParser(tokens[::-1], symbols)
    try:
        size = reader.sum()
    except IndexError:
        raise ValueError(f"{shown} ends too early") from None
    if reader.tokens or "".join(tokens) != text:
        raise ValueError(f"{shown} is not a size")
    if range_of(size).max > _LARGEST:
        raise ValueError(f"{shown} comes to more than {_LARGEST:.1e}")
    return size


class _SizeParser:
    """Reads sums of products, token by token, as Python reads them."""

    def __init__(self, tokens: list[str], symbols: Mapping[str, Range]) -> None:
        self.tokens, self.symbols, self.depth = tokens, symbols, 0

    def sum(self) -> Size:
        size = self._product()
        while self._next in ("+", "-"):
            size = size + self._product() if self.tokens.pop() == "+" else size - self._product()
            _refuse_large(size)
        return size

    def _product(self) -> Size:
        size = self._factor()
        while self._next in ("*", "//"):
            size = _times(size, self._factor()) if self.tokens.pop() == "*" else size // self._divisor()
            _refuse_large(size)
        return size

    def _factor(self) -> Size:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"there are more than {_DEEPEST} brackets or signs within each other")
        size = self._single()
        self.depth -= 1
        return size

    def _single(self) -> Size:
        token = self.tokens.pop()
        if token == "-":
            return -self._factor()
        if token == "(":
            size = self.sum()
            if self.tokens.pop() != ")":
                raise ValueError("a bracket is not closed")
            return size
        if token.isdigit():
            number = int(token) if len(token) <= _DIGITS else _LARGEST + 1
            _refuse_large(number)
            return number
        if token not in self.symbols:
            raise ValueError(f"{token!r} is neither a number nor a symbol with a range")
        return OpenSize.symbol(token, self.symbols[token])

    def _divisor(self) -> int:
        divisor = self._factor()
        if not isinstance(divisor, int) or divisor < 1:
            raise ValueError(f"the divisor {divisor} is not a positive number")
        return divisor

    @property
    def _next(self) -> str:
        return self.tokens[-1] if self.tokens else ""


def _times(size: Size, other: Size) -> Size:
    terms = [len(each.terms) if isinstance(each, OpenSize) else 1 for each in (size, other)]
    if prod(terms) > _MOST_TERMS:
        raise ValueError(f"a product comes to {prod(terms)} terms, expected at most {_MOST_TERMS}")
    return size * other


def _refuse_large(size: Size) -> None:
    """Raise ``ValueError`` for a part of a formula that is too large to go on with, whatever is made of it."""
    numbers = [factor for _, factor in size.terms] if isinstance(size, OpenSize) else [size]
    if max(map(abs, numbers)) > _LARGEST:
        raise ValueError(f"a number is larger than {_LARGEST:.1e}")
    if isinstance(size, OpenSize) and len(size) > _LONGEST:
        raise ValueError(f"a part comes to {len(size)} characters, expected at most {_LONGEST}")
