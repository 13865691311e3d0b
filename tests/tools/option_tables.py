"""The tables of options in docs/commands.md: each option once, with its commands, by the headings of ``--help``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from prototrt.cli import main
from prototrt.converter.commandline.options.sections import OF_ALL, SECTIONS, heading_of

Row = tuple[str, str]
"""An option as it is written, with the values that it takes, and its meaning."""


def option_tables() -> str:
    """A heading and a table for each group of options. Options of one spelling may differ by command."""
    commands: dict[str, dict[Row, list[str]]] = {heading: {} for heading in ("Options", *SECTIONS)}
    for path, heading, row in rows(main, ()):
        commands[heading].setdefault(row, []).append(path)
    del commands[OF_ALL]  # every command has them, and the page says so
    tables = [_table(heading, options) for heading, options in commands.items()]
    return "\n\n".join(tables)


def rows(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, str, Row]]:
    """For each option of each command: the command, the heading, the row."""
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            yield from rows(below, (*path, name))
        return
    context = click.Context(command)
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            yield " ".join(path), heading_of(parameter), record


def _table(heading: str, options: dict[Row, list[str]]) -> str:
    lines = [f"### {heading}", "", "| option | meaning | commands |", "| --- | --- | --- |"]
    for (spelling, meaning), paths in options.items():
        spelling, meaning = spelling.replace("|", "\\|"), " ".join(meaning.replace("|", "\\|").split())
        lines.append(f"| `{spelling}` | {meaning} | {', '.join(paths)} |")
    return "\n".join(lines)
