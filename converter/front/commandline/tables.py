"""Tables on a terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.front.commandline.printing import put

_GAP, _NARROW_GAP = 3, 2
"""Blanks between two columns."""


class Table:
    """Rows of texts of any origin below headers.

    ``right`` are columns of numbers, ``folds`` those whose text may go on in the next line.
    """

    def __init__(self, headers: Sequence[str], right: Sequence[int] = (), folds: Sequence[int] = ()) -> None:
        self._headers, self._right, self._folds = headers, right, folds
        self._rows: list[list[str]] = []
        self._sections: set[int] = set()  # how many rows there were

    def add_row(self, *cells: str | Sequence[str]) -> None:
        """Add a row. A cell of several texts has a line for each."""
        lines = [[cell] if isinstance(cell, str) else cell for cell in cells]
        texts = ["\n".join(map(visible_line, cell)) for cell in lines]
        self._rows.append(texts + [""] * (len(self._headers) - len(cells)))

    def add_section(self) -> None:
        """Draw a line below the rows so far."""
        if self._rows:
            self._sections.add(len(self._rows))

    def show(self) -> None:
        """As wide as the terminal; where there is none, or words would be cut, as wide as the table needs."""
        is_terminal = "FORCE_COLOR" in os.environ or (sys.stdout is not None and sys.stdout.isatty())
        is_bold = is_terminal and os.environ.get("TERM") != "dumb"
        widths, gap = self._widths(self._rows), _GAP
        most = shutil.get_terminal_size().columns if is_terminal else sys.maxsize
        rows = self._rows
        if 1 + sum(widths) + gap * (len(widths) - 1) > most:
            gap = _NARROW_GAP
            most -= 1 + gap * (len(widths) - 1)
            long = re.compile(rf"\S{{{max(most // len(widths), 1)},}}")
            rows = [
                [
                    long.sub(_in_parts, cell) if place in self._folds else cell
                    for place, cell in enumerate(row)
                ]
                for row in rows
            ]
            narrow = self._narrow_widths(rows, most)
            rows = [list(map(_wrapped, row, narrow)) for row in rows]
            widths = self._widths(rows)
        put("".join(f"{line.rstrip()}\n" for line in self._lines(rows, widths, " " * gap, is_bold)))

    def _lines(
        self, rows: Sequence[Sequence[str]], widths: Sequence[int], gap: str, is_bold: bool
    ) -> Iterator[str]:
        head = self._line(self._headers, widths, gap)
        yield ""
        yield f" \x1b[1m{head.strip()}\x1b[0m" if is_bold else head
        yield f" {'─' * (sum(widths) + len(gap) * (len(widths) - 1))}"
        for place, row in enumerate(rows):
            if place in self._sections:
                yield ""
            for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
                yield self._line(parts, widths, gap)
        yield ""

    def _line(self, parts: Sequence[str], widths: Sequence[int], gap: str) -> str:
        blanks = [" " * (width - _width(part)) for part, width in zip(parts, widths, strict=True)]
        cells = zip(range(len(parts)), parts, blanks, strict=True)
        return " " + gap.join(
            blank + part if place in self._right else part + blank for place, part, blank in cells
        )

    def _widths(self, rows: Sequence[Sequence[str]], separator: str = "\n") -> list[int]:
        """The characters that the longest line in each column takes, or the longest word."""
        columns = zip(self._headers, *rows, strict=True)
        return [
            max(_width(part) for cell in column for part in re.split(separator, cell)) for column in columns
        ]

    def _narrow_widths(self, rows: Sequence[Sequence[str]], most: int) -> list[int]:
        """The widest columns that fold are cut to one width with which all fit, but never below their longest word."""
        whole, least = self._widths(rows), self._widths(rows, r"\s")
        for cap in range(max(whole), 0, -1):
            widths = [
                max(word, min(width, cap)) if place in self._folds else width
                for place, (width, word) in enumerate(zip(whole, least, strict=True))
            ]
            if sum(widths) <= most:
                break
        return widths


def _in_parts(word: re.Match[str]) -> str:
    """``package.module.Class``, which is longer than a column's share, with a line for each part."""
    return re.sub(r"\b\.\b", ".\n", word[0])


def _wrapped(cell: str, width: int) -> str:
    """The cell with lines that are no longer, but for single words."""
    lines: list[str] = []
    for line in cell.split("\n"):
        lines.append("")
        for word in line.split(" "):
            longer = f"{lines[-1]} {word}" if lines[-1] else word
            if _width(longer) <= width or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(word)
    return "\n".join(lines)


def _width(text: str) -> int:
    """The columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
