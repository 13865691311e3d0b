"""A function becomes a command: what it takes says which options there are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, TypeAlias

import click

from prototrt.caffe_proto.common.options import option_fields
from prototrt.converter.front.commandline.frame import GuardedCommand
from prototrt.converter.front.commandline.options.common import common_options, json_option
from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.sections import place_in_help

Decorator: TypeAlias = Callable[[Any], Any]


def command(
    *further: Decorator,
    only: Mapping[type[Any], Sequence[str]] | None = None,
    group: click.Group | None = None,
    **settings: Any,
) -> Callable[[Callable[..., None]], click.Command]:
    """A decorator that makes a command, of the ``group`` if it is in one.

    A parameter of the function that is a dataclass of options has an option for each field, or for ``only`` these.
    Two dataclasses may share an option. ``further`` are the arguments and options for other parameters, and those of
    fields that differ from what the field declares. A parameter ``as_json`` is ``--json``.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        taken = inspect.signature(function, eval_str=True).parameters
        hints = {name: each.annotation for name, each in taken.items()}
        kinds = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
        last = [json_option, common_options] if "as_json" in taken else [common_options]
        declared = [*further, *_field_options(kinds.values(), further, only or {}), *last]
        make = group.command(**settings) if group else click.command(cls=GuardedCommand, **settings)
        made: click.Command = make(options(*declared)(_with_objects(function, kinds)))
        made.params.sort(key=place_in_help)
        return made

    return decorate


def _field_options(
    kinds: Iterable[type[Any]], further: Sequence[Decorator], only: Mapping[type[Any], Sequence[str]]
) -> list[Decorator]:
    """The options of fields, but for those that are declared by themselves."""
    names = {each.name for each in _parameters(further)}
    chosen = {
        field.name: kind
        for kind in kinds
        for field in option_fields(kind)
        if field.name in only.get(kind, (field.name,)) and field.name not in names
    }
    return [field_option(kind, name) for name, kind in chosen.items()]


def _parameters(decorators: Sequence[Decorator]) -> list[click.Parameter]:
    made: click.Command = click.command()(options(*decorators)(lambda: None))
    return made.params


def _with_objects(function: Callable[..., None], kinds: Mapping[str, type[Any]]) -> Callable[..., None]:
    """The function of single options: an object is made of those with the names of its fields."""
    names = {keyword: {field.name for field in fields(kind)} for keyword, kind in kinds.items()}

    @wraps(function)
    def command_function(**values: Any) -> None:
        made = {
            keyword: kind(**{name: values[name] for name in names[keyword] & values.keys()})
            for keyword, kind in kinds.items()
        }
        others = values.keys() - set().union(*names.values())
        function(**{name: values[name] for name in others}, **made)

    return command_function
