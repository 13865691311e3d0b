"""From options of the command line to the dataclasses that the library takes, and back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

import click

from prototrt.caffe_proto.common.options import Options, one_name, other_words_close_to
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Worded, worded
from prototrt.converter.front.commandline.wording import command_line_words

F = TypeVar("F", bound=Callable[..., Any])


class FieldOption(click.Option):
    """An option whose help is the meaning of a field, in the words of the command line."""

    def __init__(self, *args: Any, meaning: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
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


def field_option(kind: type[Options], name: str, *spellings: str, **attributes: Any) -> Callable[[F], F]:
    """An option of the command line for this field, with the field's meaning, default and choices.

    It is spelled like the field, unless something else is given; so is its ``meaning``. ``multiple`` options become
    a tuple, or the result of ``collect``.
    """
    (option_field,) = (field for field in fields(kind) if field.name == name)
    attributes = {"meaning": option_field.metadata["meaning"], "cls": FieldOption} | attributes
    if option_field.default is not MISSING:
        attributes.setdefault("default", option_field.default)
    choices, least = option_field.metadata.get("choices"), option_field.metadata.get("least")
    if isinstance(option_field.default, bool):
        attributes["is_flag"] = True
    elif least is not None:
        attributes["type"] = click.IntRange(min=least, max=option_field.metadata.get("most"))
        attributes.setdefault("metavar", "N")
    elif choices is not None:
        attributes.setdefault("type", _Choice(option_field))
    if "multiple" in attributes:
        collect = attributes.pop("collect", tuple)
        attributes["default"] = None
        attributes["callback"] = lambda context, parameter, values: collect(values) or option_field.default
    return click.option(*(spellings or [f"--{name.replace('_', '-')}"]), name, **attributes)


def options(*each: Callable[[F], F]) -> Callable[[F], F]:
    """A decorator that adds all of these, to be shown in this order."""

    def decorate(command: F) -> F:
        for option in reversed(each):
            command = option(command)
        return command

    return decorate


def gathered(**kinds: type[Any]) -> Callable[[F], F]:
    """The innermost decorator of a command: it passes objects of these kinds, by these keywords.

    Each object is made from the options with the names of its fields. Two kinds may share an option.
    """

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_objects(**values: Any) -> Any:
            names = {keyword: {field.name for field in fields(kind)} for keyword, kind in kinds.items()}
            made = {
                keyword: kind(**{name: values[name] for name in names[keyword] & values.keys()})
                for keyword, kind in kinds.items()
            }
            others = values.keys() - set().union(*names.values())
            return command(**{name: values[name] for name in others}, **made)

        result: Any = with_objects
        return result  # type: ignore[no-any-return]  # it is called as the command is

    return decorate
