"""Tables look as rich makes them, whether they fit the terminal or not."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from unittest import mock

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from prototrt.converter.front.commandline.report import print_support
from prototrt.converter.front.commandline.tables import Table
from prototrt.surgery.views.support import supported_layers

HEADERS = ("layer", "tops", "multiply-adds")
RIGHT, FOLDS = 2, 1


class Stream(io.StringIO):
    """What a command writes, to a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def shown(rows: Sequence[Sequence[str]], section: int, width: int | None) -> str:
    """What a table prints on a terminal of this width; without one, what it writes into a file."""
    table = Table(HEADERS, right=(RIGHT,), folds=(FOLDS,))
    for place, row in enumerate(rows):
        if place == section:
            table.add_section()
        table.add_row(*(cell.split("\n") for cell in row))
    stream, size = Stream(is_terminal=width is not None), {"COLUMNS": str(width or 80), "TERM": "xterm"}
    with mock.patch.object(sys, "stdout", stream), mock.patch.dict(os.environ, size):
        table.show()
    return stream.getvalue()


WORDS = st.sampled_from(["", "conv1", "(1, 3, 224, 224)", "1,234,567", "é漢字", "[bold]x[/]", "some words"])
LINES = st.lists(WORDS, min_size=1, max_size=3).map("\n".join)
ROWS = st.lists(st.tuples(WORDS, LINES, WORDS), max_size=4)


@given(ROWS, st.integers(1, 4), st.sampled_from([None, 200]))
def test_a_table_that_fits_looks_as_rich_makes_it(
    rows: list[tuple[str, str, str]], section: int, width: int | None
) -> None:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, header in enumerate(HEADERS):
        table.add_column(header, justify="right" if place == RIGHT else "left", no_wrap=place != FOLDS)
    for place, row in enumerate(rows):
        if place == section:
            table.add_section()
        table.add_row(*row)
    stream = Stream(is_terminal=width is not None)
    with mock.patch.dict(os.environ, TERM="xterm"):
        Console(file=stream, markup=False, emoji=False, highlight=False, width=200).print(table)
    expected = "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())
    assert click.unstyle(shown(rows, section, width)) == click.unstyle(expected)


def test_a_terminal_has_bold_headers() -> None:
    bold, plain = (shown([ROW], 0, width) for width in (200, None))
    assert bold.splitlines()[1] == f" \x1b[1m{plain.splitlines()[1].strip()}\x1b[0m"


def test_the_table_of_layers_fits_a_terminal() -> None:
    stream = Stream(is_terminal=True)
    with mock.patch.object(sys, "stdout", stream), mock.patch.dict(os.environ, COLUMNS="80"):
        print_support(supported_layers())
    lines = click.unstyle(stream.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("cut_roi_layer." in line for line in lines)


ROW = ("conv1", "first second third", "1,234")
WHOLE = """
 layer   tops                 multiply-adds
 ──────────────────────────────────────────
 conv1   first second third           1,234

"""
CLOSE = """
 layer  tops                multiply-adds
 ────────────────────────────────────────
 conv1  first second third          1,234

"""
FOLDED = """
 layer  tops          multiply-adds
 ──────────────────────────────────
 conv1  first second          1,234
        third

"""
NARROW = """
 layer  tops    multiply-adds
 ────────────────────────────
 conv1  first           1,234
        second
        third

"""


@pytest.mark.parametrize(("width", "expected"), [(43, WHOLE), (42, CLOSE), (36, FOLDED), (20, NARROW)])
def test_a_terminal_folds_what_is_too_wide_but_cuts_no_word(width: int, expected: str) -> None:
    text = shown([ROW], 0, width)
    assert click.unstyle(text) == expected


def test_a_row_may_end_early() -> None:
    assert shown([("2 layers",)], 0, None).splitlines()[3] == " 2 layers"
