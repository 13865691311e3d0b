"""Sizes from the text that an ``OpenSize`` is."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prototrt.caffe_proto.common.wording import excerpt
from prototrt.surgery.ir.dimensions import OpenSize, Range, Size

_MOST_TOKENS, _DEEPEST = 1000, 100
"""Of a text that a person or a manifest writes; deep nets have sizes of some hundred."""
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
    return size


class _SizeParser:
    """Reads sums of products, token by token, as Python reads them."""

    def __init__(self, tokens: list[str], symbols: Mapping[str, Range]) -> None:
        self.tokens, self.symbols, self.depth = tokens, symbols, 0

    def sum(self) -> Size:
        size = self._product()
        while self._next in ("+", "-"):
            size = size + self._product() if self.tokens.pop() == "+" else size - self._product()
        return size

    def _product(self) -> Size:
        size = self._factor()
        while self._next in ("*", "//"):
            size = size * self._factor() if self.tokens.pop() == "*" else size // self._divisor()
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
            return int(token)
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
