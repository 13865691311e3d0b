"""From the fields of the dataclasses that the library takes to options of the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

import click

from prototrt.caffe_proto.common.options import one_name, other_words_close_to, type_of
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Worded, worded
from prototrt.converter.files.written_values import notation_of
from prototrt.converter.front.commandline.options.parameter_types import (
    InputFile,
    OutputFile,
    OutputFolder,
    ReadType,
)
from prototrt.converter.front.commandline.wording import command_line_words

F = TypeVar("F", bound=Callable[..., Any])


class FieldOption(click.Option):
    """An option whose help is the meaning of a field, in the words of the command line.

    ``once`` is the spelling that it had before, by the field's name for it. Where the command calls another option so,
    that one counts; if it ``is_shared``, only with the values that the other one takes.
    """

    def __init__(
        self,
        *args: Any,
        meaning: str,
        once: str | None = None,
        is_shared: bool = False,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.once, self.is_shared = None if once is None else f"--{once.replace('_', '-')}", is_shared
        self.meaning = Worded("{} Repeatable.", meaning) if self.multiple else meaning

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        with ctx.scope(cleanup=False):
            self.help = worded(self.meaning, command_line_words)
        return super().get_help_record(ctx)


class _Choice(click.Choice[str]):
    """The choices of a field, in any case, and the other words that it takes."""

    def __init__(self, option_field: Field[Any]) -> None:
        super().__init__(option_field.metadata["choices"])
        self.option_field = option_field

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        word = one_name(self.option_field, value)
        return word if word in self._others else super().convert(word, param, ctx)

    @property
    def _others(self) -> Sequence[str]:
        others: Sequence[str] = self.option_field.metadata.get("others", ())
        return others

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        word = str(value)
        close = close_names(word, self.choices) or other_words_close_to(self.option_field, word)
        meant = f" Did you mean {' or '.join(close)}?" if close else ""
        return super().get_invalid_choice_message(value, ctx) + meant


def _type_for(option_field: Field[Any]) -> Any:
    """What reads the values of a field."""
    data, kind, written = option_field.metadata, type_of(option_field), notation_of(option_field)
    if "least" in data:
        return click.IntRange(min=data["least"], max=data["most"])
    if data.get("shown") == OutputFolder.name:
        return OutputFolder()
    if "writes" in data:
        return OutputFile(*data["writes"])
    if "reads" in data:
        return InputFile(kind)
    if written is not None:
        return ReadType(written, data.get("choices", ()))
    return _Choice(option_field) if "choices" in data else {"int": int, "float": float}.get(kind)


def field_option(kind: type[Any], name: str, **attributes: Any) -> Callable[[F], F]:
    """An option of the command line for this field, as it declares it; ``-o`` if it must be given."""
    (option_field,) = (field for field in fields(kind) if field.name == name)
    data, default, written = option_field.metadata, option_field.default, notation_of(option_field)
    names = [called.replace("_", "-") for called in data.get("called", name).split()]
    spellings = [("-" if len(each) == 1 else "--") + each for each in names]
    declared: dict[str, Any] = {
        "cls": FieldOption,
        "meaning": data["meaning"],
        "once": data.get("once"),
        "type": _type_for(option_field),
    }
    if default is MISSING:
        spellings, declared["required"] = ["-o"], True
    else:
        declared["default"] = default
    if "shown" in data:
        declared["metavar"] = data["shown"]
    if type_of(option_field) == "bool":
        spellings = [f"{each}/--no-{each[2:]}" if default is None else each for each in spellings]
        declared["is_flag"] = True
    if written is not None and written.repeats:
        collect: Callable[..., Any] = written.collect  # type: ignore[assignment]  # it repeats
        declared |= {"multiple": True, "default": None}
        declared["callback"] = lambda context, parameter, values: collect(values) or default
    return click.option(*spellings, name, **declared | attributes)


def options(*each: Callable[[F], F]) -> Callable[[F], F]:
    """A decorator that adds all of these, to be shown in this order."""

    def decorate(command: F) -> F:
        for option in reversed(each):
            command = option(command)
        return command

    return decorate
