"""The tables of options in docs/commands.md: each option once, with its commands, by the headings of ``--help``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from prototrt.cli import main
from prototrt.converter.front.commandline.options.sections import OF_ALL, SECTIONS, heading_of

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
    """The commands that most options of a section have stand above them, the others before the meaning."""
    sets = Counter(tuple(paths) for paths in options.values())
    shared = max(sets, key=lambda each: (sets[each], len(each))) if heading in SECTIONS else ()
    head = [f"Of {', '.join(shared)}, unless stated."] if shared else []
    lines = ["| option | meaning |", "| --- | --- |"]
    for (spelling, meaning), paths in options.items():
        spelling, meaning = spelling.replace("|", "\\|"), " ".join(meaning.replace("|", "\\|").split())
        lines.append(f"| `{spelling}` | {_of(paths, shared)}{meaning} |")
    return "\n\n".join([f"### {heading}", *head, "\n".join(lines)])


def _of(paths: list[str], shared: tuple[str, ...]) -> str:
    """The commands that have an option, by how they differ from those that share the section's options."""
    further = [each for each in paths if each not in shared]
    missing = [each for each in shared if each not in paths]
    if shared and not missing:
        return f"*also {', '.join(further)}*: " if further else ""
    if shared and not further and len(missing) < len(paths):
        return f"*not {', '.join(missing)}*: "
    return f"*{', '.join(paths)}*: "
