"""Options that make no sense together, whatever the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource


def refuse_overwriting(given: Mapping[str, Any]) -> None:
    """A command writes no file that it reads: a slip of the hand must not cost the user a model."""
    target = given.get("target")
    if target is None:
        return
    from prototrt.converter.files import overwritten

    files = [given.get(name) for name in ("model", "weights", "inputs")]
    files.append(getattr(given.get("state"), "file", None))
    read = [file for file in files if file]
    for written in (target, f"{target}.json"):
        if file := overwritten(written, read):
            raise click.UsageError(f'-o would overwrite "{file}", which is read: give another output file')


def refuse_options_beside(plan: str, *allowed: str) -> None:
    """A plan is built already: options about the net, or how it is rewritten, make no sense with it."""
    context = click.get_current_context()
    common = {"model", "verbose", "quiet", "debug"}
    for parameter in context.command.params:
        name = parameter.name or ""
        stated = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if stated and name not in common.union(allowed):
            what = parameter.opts[0] if isinstance(parameter, click.Option) else name.upper()
            raise click.UsageError(f"{what} is for nets, but {plan} is a plan")
