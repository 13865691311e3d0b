"""Tables on a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.front.commandline.printing import put

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

_GAP = " " * 3
"""What is between two columns."""


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
        from rich.console import Console

        console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
        terminal = console.width if console.is_terminal else None
        widths = self._widths()
        widest = sum(widths) + len(_GAP) * len(widths) - 1
        is_narrow = terminal is not None and terminal < widest
        lines = self._folded_lines(console, widths) if is_narrow else self._whole(console, widths, widest)
        put("".join(f"{line.rstrip()}\n" for line in lines))  # with the terminal's commands for bold headers

    def _widths(self) -> list[int]:
        """The characters that the longest line in each column takes."""
        from rich.cells import cell_len

        columns = zip(self._headers, *self._rows, strict=True)
        return [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]

    def _whole(self, console: Console, widths: Sequence[int], widest: int) -> Iterator[str]:
        """The lines of the table where nothing has to fold. rich, which measures each cell, makes the head only."""
        console.width = widest
        *head, bottom = _lines(console, self._head(widths))
        yield from head
        for place, row in enumerate(self._rows):
            if place in self._sections:
                yield ""
            for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
                yield " " + _GAP.join(map(self._cell_text, range(len(parts)), parts, widths))
        yield bottom

    def _cell_text(self, column: int, text: str, width: int) -> str:
        from rich.cells import cell_len

        blanks = " " * (width - cell_len(text))
        return blanks + text if column in self._right else text + blanks

    def _folded_lines(self, console: Console, widths: Sequence[int]) -> Iterator[str]:
        """The lines of the table on a terminal that is too narrow; words are only cut behind the dots of long ones."""
        terminal = console.width
        long = re.compile(rf"\S{{{terminal // len(widths)},}}")
        table = self._head([None] * len(widths))
        for place, row in enumerate(self._rows):
            if place in self._sections:
                table.add_section()
            folded = (
                cell if place not in self._folds else long.sub(_in_lines, cell)
                for place, cell in enumerate(row)
            )
            table.add_row(*folded)
        table.padding = (0, 1, 0, 0)
        for column, width in zip(table.columns, widths, strict=True):
            if column.no_wrap:
                column.min_width = width
        console.width = 10_000
        console.width = max(terminal, console.measure(table).minimum)
        yield from _lines(console, table)

    def _head(self, widths: Sequence[int | None]) -> RichTable:
        """The table without its rows, with columns of these widths, or of any."""
        from rich import box
        from rich.table import Table as RichTable

        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, (header, width) in enumerate(zip(self._headers, widths, strict=True)):
            table.add_column(
                header,
                justify="right" if place in self._right else "left",
                overflow="fold",
                no_wrap=place not in self._folds,
                width=width,
            )
        return table


def _in_lines(word: re.Match[str]) -> str:
    """``package.module.Class`` with a line for each part."""
    return re.sub(r"\b\.\b", ".\n", word[0])


def _lines(console: Console, table: RichTable) -> list[str]:
    with console.capture() as text:
        console.print(table)
    return text.get().strip("\n").splitlines()
