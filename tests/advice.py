"""Takes the advice out of messages and follows it, on the command that printed them."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from sys import _getframe
from typing import Any
from unittest.mock import patch

import click
from click.testing import CliRunner

from prototrt.caffe_proto.common.errors import ConversionError, Problems
from prototrt.caffe_proto.common.wording import (
    Command,
    Named,
    Option,
    ShortText,
    Together,
    Worded,
    python_words,
    worded,
)
from prototrt.cli import main
from prototrt.converter.front.commandline import failures, frame, logs, printing, report
from prototrt.converter.front.commandline.wording import command_line_words, in_command_line_words
from prototrt.surgery.ir import Graph
from prototrt.tests.fresh_python import ROOT

Place = tuple[str, int]
"""The file, below the root of the repository, and the line where an option or a command in a message is made."""

_ROOT = ROOT.resolve()
_OR = re.compile(r"; or |, or |; | or ")
_OF_COMMAND = re.compile(r"\0`?( does)? with $")
_LEAVE_OUT = re.compile(r"\b(leave out|leave|omit|without|instead of)\s*(\0\d+\0(, | and )\s*)*$")
_PART = re.compile("\0(\\d+)\0")
_ADDING = ("shapes", "sizes", "define", "overrides", "replace", "plugin")
"""Options that add to what they were given before, by names."""
USUAL = {"N": "1", "T": "2", "C": "4", "L": "16", "H": "32", "W": "32", "I": "4", "R": "1"}
"""Sizes for the letters of shapes."""


@dataclass(frozen=True)
class Proposal:
    """One of the ways out that a message names: what it gives, leaves out and runs, as the command line spells it.

    ``python`` are the options as keywords; ``with_commands`` those that stand in a command that it names.
    """

    text: str
    given: tuple[tuple[Option, str], ...]
    dropped: tuple[Option, ...]
    commands: tuple[tuple[Command, str], ...]
    python: tuple[str, ...]
    with_commands: tuple[Option, ...]

    @property
    def named(self) -> list[Named]:
        given, commands = ([each for each, _ in pairs] for pairs in (self.given, self.commands))
        return [*given, *self.dropped, *commands, *self.with_commands]


@dataclass(frozen=True)
class Problem:
    """A problem, or a warning, and the ways out of it."""

    text: str
    proposals: Sequence[Proposal]
    is_warning: bool


@dataclass
class Attempt:
    """How a command ended, and what its messages propose."""

    code: int = 0
    output: str = ""
    problems: list[Problem] = field(default_factory=list)
    places: dict[int, tuple[Named, Place]] = field(default_factory=dict)

    @property
    def texts(self) -> set[str]:
        return {problem.text for problem in self.problems}

    def places_of(self, proposal: Proposal) -> set[Place]:
        return {self.places[id(named)][1] for named in proposal.named if id(named) in self.places}


def attempt(arguments: Sequence[str]) -> Attempt:
    """Run a command, and collect the advice of its error and of its warnings."""
    found = Attempt()
    with _listening(found):
        result = CliRunner().invoke(main, list(arguments), standalone_mode=False, prog_name="prototrt")
    if isinstance(result.exception, click.ClickException):
        found.code = result.exception.exit_code
        found.output = f"error: {result.exception.format_message()}"
        cause = result.exception.__cause__
        with click.Context(_command(arguments)[0], click.Context(main)).scope():
            advice = cause.fix if isinstance(cause, ConversionError) else None
            found.problems.append(_problem(found.output, advice))
    elif result.exception is not None:
        raise result.exception
    else:
        found.code, found.output = result.return_value or 0, result.output
    return found


@contextmanager
def _listening(found: Attempt) -> Iterator[None]:
    failure_of, in_words_of, warn, line = (
        failures.failure_of,
        Graph.in_words_of,
        printing.warn,
        logs.Line.format,
    )

    def of_failure(error: Exception, **options: Any) -> Any:
        for each in error.errors if isinstance(error, Problems) else (error,):
            if isinstance(each, ConversionError):
                found.problems.append(_problem(each.text, each.fix))
        if isinstance(error, Problems) and error.fix:
            found.problems.append(_problem(error.fix, error.fix))
        return failure_of(error, **options)

    def of_graph(graph: Graph, surface: Any) -> Graph:
        found.problems.extend(_problem(warning, warning) for warning in graph.warnings)
        return in_words_of(graph, surface)

    def of_warnings(warnings: Sequence[str], *others: Any, **named: Any) -> None:
        found.problems.extend(_problem(warning, warning) for warning in warnings)
        warn(warnings, *others, **named)

    def of_log(self: logs.Line, record: Any) -> str:
        found.problems.extend(_problem(part, part) for part in record.args if isinstance(part, Worded))
        return line(self, record)

    def of_report(facts: Any) -> Any:
        if isinstance(facts, Worded):
            found.problems.append(_problem(facts, facts))
        return in_command_line_words(facts)

    with ExitStack() as stack:
        stack.enter_context(patch.object(report, "in_command_line_words", of_report))
        stack.enter_context(patch.object(frame, "failure_of", of_failure))
        stack.enter_context(patch.object(Graph, "in_words_of", of_graph))
        stack.enter_context(patch.object(logs.Line, "format", of_log))
        for module in _modules_with(warn):
            stack.enter_context(patch.object(module, "warn", of_warnings))
        stack.enter_context(recorded(found.places))
        yield


@cache
def _modules_with(warn: Any) -> list[Any]:
    import sys

    main.list_commands(click.Context(main))
    for name in main.commands:
        main.commands[name]  # imports it
    return [each for each in [*sys.modules.values()] if getattr(each, "warn", None) is warn]


@contextmanager
def recorded(places: dict[int, tuple[Named, Place]]) -> Iterator[None]:
    """Within the block, ``places`` are told where each option and each command is made."""
    with _recorded(Option, places), _recorded(Command, places):
        yield


def _recorded(kind: type[Named], places: dict[int, tuple[Named, Place]]) -> Any:
    make: Any = kind.__init__

    def recorded(self: Named, *values: Any, **named: Any) -> None:
        make(self, *values, **named)
        caller = _getframe(1)
        file = Path(caller.f_code.co_filename).resolve()
        if file.is_relative_to(_ROOT):
            places[id(self)] = self, (str(file.relative_to(_ROOT)), caller.f_lineno)

    return patch.object(kind, "__init__", recorded)


def problem_of(error: ConversionError) -> Problem:
    """An error's text, and the ways out."""
    return _problem(error.text, error.fix)


def _problem(text: str, advice: str | None) -> Problem:
    words = worded(text, command_line_words, whole=True)
    return Problem(words, [] if advice is None else proposals(advice), text is advice)


def flat(text: object) -> Iterator[str | Named]:
    """The texts, options and commands that a message consists of, with nothing shortened."""
    if isinstance(text, Together):
        yield from chain.from_iterable((" ", option) for option in text.each)
    elif isinstance(text, Named):
        yield text
    elif isinstance(text, ShortText):
        yield from flat(text.whole)
    elif isinstance(text, Worded):
        parts = iter(text._parts)
        for literal, name, _, _ in string.Formatter().parse(text._template):
            yield literal
            if name is not None:
                yield from flat(next(parts))
    else:
        yield str(text)


def proposals(text: str) -> list[Proposal]:
    """The ways out that a text names with options or commands."""
    pieces = [*flat(text)]
    marked = "".join(
        piece if isinstance(piece, str) else f"\0{index}\0" for index, piece in enumerate(pieces)
    )
    return [_proposal(segment, pieces) for segment in _OR.split(marked) if _PART.search(segment)]


def _proposal(segment: str, pieces: Sequence[str | Named]) -> Proposal:
    given, dropped, commands, with_commands = [], [], [], []
    for mark in _PART.finditer(segment):
        part = pieces[int(mark[1])]
        if isinstance(part, Command):
            commands.append((part, command_line_words(part)))
        elif isinstance(part, Option):
            if _LEAVE_OUT.search(segment[: mark.start()]):
                dropped.append(part)
            elif commands and _OF_COMMAND.search(segment[: mark.start()]):
                named, words = commands.pop()
                commands.append((named, f"{words} {command_line_words(part)}"))
                with_commands.append(part)
            else:
                given.append((part, command_line_words(part)))
    text = _PART.sub(lambda mark: worded(Worded("{}", pieces[int(mark[1])]), command_line_words), segment)
    keywords = tuple(python_words(option) for option, _ in given if option.value is not None)
    return Proposal(text, tuple(given), tuple(dropped), tuple(commands), keywords, tuple(with_commands))


def followed(arguments: Sequence[str], proposal: Proposal, values: Mapping[str, str]) -> list[str]:
    """The command with what is proposed; ``values`` replace placeholders, and options that have no value yet."""
    command, _ = _command(arguments)
    result, added = list(arguments), list[str]()
    for option in proposal.dropped:
        result = without(result, _parameter(command, option.name))
    for option, words in proposal.given:
        texts = [_filled(text, option, values) for text in shlex.split(values.get(words, words))]
        parameter = _parameter(command, option.name)
        keys = {re.split("[=:]", text)[0] for text in texts[1::2]}
        result = without(result, parameter, keys if option.name in _ADDING else None)
        added += texts
    return [*result, *added]


def _filled(text: str, option: Option, values: Mapping[str, str]) -> str:
    """The text with the values of its placeholders; of shapes, also with usual sizes for letters."""
    for name in sorted(values, key=len, reverse=True):
        if re.fullmatch(r"[\w.]+", name):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", values[name], text)
    if option.name != "shapes":
        return text
    name, colon, sizes = text.partition(":")
    return name + colon + "x".join(USUAL.get(size, size) for size in sizes.split("x"))


def _command(arguments: Sequence[str]) -> tuple[click.Command, list[str]]:
    """The command that is called, and its own arguments."""
    command: click.Command = main
    words = list(arguments)
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    return command, words


def _parameter(command: click.Command, name: str) -> click.Option | None:
    options = (each for each in command.params if isinstance(each, click.Option))
    return next((each for each in options if each.name == name), None)


def without(
    arguments: Sequence[str], parameter: click.Option | None, keys: set[str] | None = None
) -> list[str]:
    """The arguments without this option; with ``keys``, without what it says about these names."""
    result, words = [], iter(arguments)
    for word in words:
        if parameter is None or word not in (*parameter.opts, *parameter.secondary_opts):
            result.append(word)
            continue
        value = [] if parameter.is_flag or parameter.count else [next(words)]
        if keys is not None and value and re.split("[=:]", value[0])[0] not in keys:
            result += [word, *value]
    return result


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line by their names in Python."""
    command, words = _command(arguments)
    return dict(command.make_context("prototrt", words).params)
