"""Tables of pages that a program makes: they stand between two comments."""

from __future__ import annotations

from pathlib import Path

import click

from prototrt.converter.files.writing.files import atomic_write

END = "<!-- end -->\n"


def replace_table(page: Path, begin: str, table: str) -> None:
    """Put the table in the place of the one in the page. Raises ``click.UsageError`` if it has no such place."""
    before, _, rest = page.read_text().partition(begin)
    _, end, after = rest.partition(END)
    if not end:
        raise click.UsageError(f"{page} has no place for the table")
    with atomic_write(page) as stream:
        stream.write(f"{before}{begin}{table}{END}{after}".encode())
