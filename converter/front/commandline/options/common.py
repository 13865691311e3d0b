"""Options that many commands share, and files that no command may read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from os import PathLike
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from prototrt import __version__
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.front.commandline.options.groups import options
from prototrt.converter.front.commandline.options.parameter_types import InputFile, OutputFile

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
    click.version_option(__version__, prog_name="prototrt"),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def text_target_option(*suffixes: str, refuses_others: bool = False) -> Callable[[F], F]:
    """``-o FILE``, for a file whose name ends in one of these, if there are any."""
    return click.option(
        "-o",
        "file",
        type=OutputFile(*suffixes, refuses_others=refuses_others),
        help="The file to write; the default is standard output.",
    )


def refuse_files_read_and_written(context: click.Context, others: Iterable[str] = ()) -> None:
    """A command writes no file that it reads: a slip of the hand must not cost the user a model.

    ``others`` are files that are read, although no option names them.
    """
    from prototrt.caffe_proto.common.wording import Option
    from prototrt.converter.files.writing.files import refuse_overwriting

    read: list[Iterable[str | PathLike[str]]] = [others]
    written: list[tuple[Option, str]] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        value = context.params.get(name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(parameter.type, OutputFile) and each is not None:
                option = Option(name)
                written += [(option, file) for file in parameter.type.files(each)]
            elif isinstance(parameter.type, InputFile) and each is not None:
                read.append(parameter.type.files(each))
    refuse_overwriting(written, chain.from_iterable(read))


def refuse_options_beside(file: str, kind: str, *allowed: str) -> None:
    """Refuse options about the net, or how it is rewritten, with an engine or an ONNX model, which is made already."""
    context = click.get_current_context()
    common = {"model", "verbose", "quiet", "debug"}
    for parameter in context.command.params:
        name = parameter.name or ""
        is_explicit = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_explicit and name not in common.union(allowed):
            what = parameter.opts[0] if isinstance(parameter, click.Option) else name.upper()
            raise click.UsageError(
                f"{what} is for nets, but {visible_line(file)} is {kind}\n  fix: leave it out"
            )
