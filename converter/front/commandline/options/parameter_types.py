"""The values that options accept: shapes, overrides, ways, states, files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from prototrt.converter.files.written_values import ANY_TRUST, NOTATIONS, Notation, files_in
from prototrt.surgery.options import STATE_FILE


class ShownType(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """``name`` is shown in help as it is written; click would have capitals throughout."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name


class ReadType(ShownType):
    """What the library reads of words."""

    def __init__(self, written: Notation, choices: Sequence[str] = ()) -> None:
        self.name, self.written = written.shown, written
        self.example = choices[0] if choices else written.example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or (param is not None and value == param.default):
            return value  # click also converts defaults, which are values already
        try:
            return self.written.value(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class InputFile(click.Path):
    """A file that a command reads, and therefore never writes; ``kind`` is the type of the option that names it.

    Whoever reads it tells what is wrong with it, and what helps.
    """

    def __init__(self, kind: str = "") -> None:
        super().__init__(readable=False)
        self._kind, self._written = kind, NOTATIONS.get(kind)
        self.example = "" if self._written is None else self._written.example

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        return None if self._written is None else self._written.shown

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        """What click adds to its message for a file that is not given: which the others were taken for."""
        files = (
            [] if ctx is None else [each for each in ctx.command.params if isinstance(each, click.Argument)]
        )
        names = [(each.human_readable_name, ctx.params.get(each.name or "")) for each in files if ctx]
        return ", ".join(f"{name} is {file}" for name, file in names if file) or None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self._written is None:
            return super().convert(value, param, ctx)
        return ReadType(self._written).convert(value, param, ctx)

    def files(self, source: Any) -> Iterator[str | PathLike[str]]:
        """All files that are read for the sake of this one; a folder is searched when the first is asked for."""
        if self._kind == "Inputs":
            from prototrt.converter.running.data.data import files_in as files_below

            yield from files_below(Path(source))
        else:
            yield from files_in(self._kind, source)


class NetOrFolder(InputFile):
    """A net, or a folder of nets."""

    def files(self, source: str) -> Iterator[str | PathLike[str]]:
        from prototrt.converter.showing.survey.survey import nets_below

        yield from nets_below([source])


class OutputFolder(ShownType):
    """A folder that a command writes into."""

    name = "FOLDER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from prototrt.converter.files.writing.files import name_fault

        if problem := name_fault(value):
            self.fail(f'cannot write into "{value}": {problem}', param, ctx)
        return str(value)


class OutputFile(ShownType):
    """A file that can be written, checked before the work begins: its name ends in one of the suffixes, if any.

    A command that says more about other suffixes ``refuses_others`` itself.
    """

    name = "FILE"

    def __init__(self, *suffixes: str, refuses_others: bool = False) -> None:
        self.suffixes = suffixes
        self._checked = () if refuses_others else suffixes
        self.example = f"net{suffixes[0] if suffixes else ''}"

    def files(self, target: str) -> list[str]:
        """All files that are written for the sake of this one."""
        return [target]

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What click adds to its message for an option that is not given."""
        return f"Name the file to write, as in {param.opts[0]} {self.example}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from prototrt.converter.files.writing.files import suffix_fault, write_fault

        if problem := suffix_fault(value, self._checked):
            self.fail(problem, param, ctx)
        if problem := write_fault(value):
            self.fail(f'cannot write "{value}": {problem}', param, ctx)
        for file in self.files(value):
            if problem := write_fault(file, follow_link=file == value):
                self.fail(f'cannot write "{file}": {problem}', param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class ProductFile(OutputFile):
    """An engine or a model, with its manifest and its weights."""

    def files(self, target: str) -> list[str]:
        from prototrt.converter.files.writing.side_files import product_files

        return product_files(target)


def with_one_word_each(arguments: Sequence[str]) -> list[str]:
    """Arguments with ``--state const FILE`` as ``--state const:FILE``, and ``--trust`` without a digest as
    ``--trust=any``: an option has one value for click."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=False)
    joined = [
        f"{word}={ANY_TRUST}" if word == "--trust" and not after.startswith("sha") else word
        for word, after in pairs
    ]
    for place, argument in enumerate(joined):
        if argument == "const" and joined[place - 1 : place] == ["--state"] and place + 1 < len(joined):
            return [*joined[:place], f"{STATE_FILE}{joined[place + 1]}", *joined[place + 2 :]]
    return joined
