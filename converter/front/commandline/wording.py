"""How the command line spells the options and commands that a message names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from prototrt.caffe_proto.common.shell_words import quoted
from prototrt.caffe_proto.common.wording import (
    Command,
    Named,
    Option,
    OptionValue,
    SizeSymbol,
    Together,
    command_words,
    worded,
)
from prototrt.converter.files.written_values import WORDS
from prototrt.converter.front.commandline.options.parameter_types import ReadType


def command_line_words(named: Named) -> str:
    """``--output fc``, ``prototrt calibrate``.

    An option is spelled as by the command that runs, or by another command where this one lacks it. Options that only
    ``convert`` has together follow its name.
    """
    if isinstance(named, Command):
        return command_words(named)
    if isinstance(named, Option):
        return _option_words(named)
    words = " ".join(map(_option_words, named.each))
    return f"prototrt convert {words}" if _are_of_convert(named) else words


def _are_of_convert(options: Together) -> bool:
    """Whether the command that runs lacks some of them, and ``convert`` none."""
    context = click.get_current_context(silent=True)
    if context is None or isinstance(context.command, click.Group):
        return False
    convert = getattr(context.find_root().command, "commands", {}).get("convert")
    return convert is not None and _has(convert, options) and not _has(context.command, options)


def _has(command: click.Command, options: Together) -> bool:
    return {option.name for option in options.each} <= {each.name for each in command.params}


def _option_words(option: Option) -> str:
    parameter = next((each for each in _parameters() if each.name == option.name), None)
    if parameter is None:
        return f"--{option.name.replace('_', '-')}"
    spelling = parameter.opts[0] if isinstance(parameter, click.Option) else option.name.upper()
    takes_words = isinstance(parameter.type, ReadType) and parameter.type.written is WORDS
    value = _pools(option.value) if option.name == "mem_pool_size" else option.value
    is_range, repeats = option.name in ("sizes", "profiles"), parameter.multiple and not takes_words
    return " ".join(_spelled(spelling, value, repeats=repeats, is_range=is_range))


def in_command_line_words(facts: Any) -> Any:
    """Facts for JSON, with every text in the command line's words."""
    if isinstance(facts, str):
        return worded(facts, command_line_words)
    if isinstance(facts, Mapping):
        return {name: in_command_line_words(fact) for name, fact in facts.items()}
    if isinstance(facts, Sequence):
        return [in_command_line_words(fact) for fact in facts]
    return facts


def _parameters() -> Iterator[click.Parameter]:
    """Those of the command that runs, then those of all the others."""
    context = click.get_current_context(silent=True)
    while context is not None:
        yield from _with_those_below(context.command)
        context = context.parent


def _with_those_below(command: click.Command) -> Iterator[click.Parameter]:
    yield from command.params
    if isinstance(command, click.Group):
        for below in command.commands.values():
            yield from _with_those_below(below)


def _spelled(spelling: str, value: OptionValue | None, *, repeats: bool, is_range: bool) -> Iterator[str]:
    """The option as it is written with this value: once for each part of it if the option repeats."""
    if value is None or value is True:
        yield spelling
        return
    texts = [quoted(text) for text in (_ranges(value) if is_range else _texts(value))]
    for text in texts if repeats else [",".join(texts)]:
        yield f"{spelling} {text}"


def _pools(value: OptionValue | None) -> OptionValue | None:
    """Sizes of pools as trtexec writes them, with colons."""
    return [f"{pool}:{size}" for pool, size in value.items()] if isinstance(value, Mapping) else value


def _texts(value: OptionValue) -> list[str]:
    if isinstance(value, Mapping):
        return [
            f"{name}={sizes}" if isinstance(sizes, str) else f"{name}:{'x'.join(map(_size, sizes))}"
            for name, sizes in value.items()
        ]
    return [str(value)] if isinstance(value, int | float | str) else list(value)


def _ranges(value: Any) -> list[str]:
    return [f"{name}={'..'.join(map(str, sizes))}" for name, sizes in value.items()]


def _size(size: int | str) -> str:
    return f"[{size}]" if isinstance(size, SizeSymbol) else str(size)
