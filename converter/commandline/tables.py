"""Tables on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal

from prototrt.caffe_proto.visible import visible
from prototrt.converter.commandline.terminal import put


class Table:
    """Rows of texts of any origin below headers.

    ``right`` are columns of numbers, ``folds`` those whose text may go on in the next line.
    """

    def __init__(self, headers: Sequence[str], right: Sequence[int] = (), folds: Sequence[int] = ()) -> None:
        from rich import box
        from rich.table import Table

        self._table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, header in enumerate(headers):
            justify: Literal["right", "left"] = "right" if place in right else "left"
            self._table.add_column(header, justify=justify, overflow="fold", no_wrap=place not in folds)

    def add_row(self, *cells: str) -> None:
        self._table.add_row(*map(visible, cells))

    def add_section(self) -> None:
        """Draw a line below the rows so far."""
        self._table.add_section()

    def show(self) -> None:
        """As wide as the terminal; where there is none, or words would be cut, as wide as the table needs."""
        from rich.console import Console

        table = self._table
        console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
        terminal = console.width if console.is_terminal else None
        console.width = 10_000
        widest = console.measure(table).maximum
        if terminal is None:
            console.width = widest
        elif terminal >= widest:
            console.width = terminal
        else:
            table.padding = (0, 1, 0, 0)
            for column in table.columns:
                if column.no_wrap:
                    column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
            console.width = max(terminal, console.measure(table).minimum)
        with console.capture() as text:
            console.print(table)
        for line in text.get().strip("\n").splitlines():
            put(f"{line.rstrip()}\n")  # with the terminal's commands for bold headers
