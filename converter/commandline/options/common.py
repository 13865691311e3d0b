"""Options that many commands share: how much to print, JSON, the file to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

import prototrt
from prototrt.converter.commandline.options.groups import options
from prototrt.converter.commandline.options.parameter_types import OutputFile

F = TypeVar("F", bound=Callable[..., Any])

_KEY = "prototrt.verbosity"


@dataclass
class Verbosity:
    """How much a command prints: ``-v``, ``-q`` and ``--debug``, given before or after the command's name."""

    verbose: int = 0
    quiet: bool = False
    debug: bool = False


def verbosity() -> Verbosity:
    """How much the running command prints."""
    current: Verbosity = click.get_current_context().meta.setdefault(_KEY, Verbosity())
    return current


def _set(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and param.name:
        setattr(ctx.meta.setdefault(_KEY, Verbosity()), param.name, value)


def _sets_verbosity(*spellings: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*spellings, expose_value=False, callback=_set, **attributes)


common_options = options(
    _sets_verbosity("-v", "--verbose", count=True, help="Print more; -vv prints everything."),
    _sets_verbosity(
        "-q", "--quiet", is_flag=True, help="Print no summary, and only warnings of missing layers."
    ),
    _sets_verbosity("--debug", is_flag=True, help="Show tracebacks."),
    click.version_option(prototrt.__version__, prog_name="prototrt"),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def text_target_option(*suffixes: str) -> Callable[[F], F]:
    """``-o FILE``, for a file whose name ends in one of these, if there are any."""
    return click.option(
        "-o", "target", type=OutputFile(*suffixes), help="The file to write; the default is standard output."
    )
