"""Options that make no sense together, whatever the command."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from os import PathLike

import click
from click.core import ParameterSource

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.commandline.options.parameter_types import InputFile, OutputFile, StateSource


def refuse_files_read_and_written(context: click.Context, others: Iterable[str] = ()) -> None:
    """A command writes no file that it reads: a slip of the hand must not cost the user a model.

    ``others`` are files that are read, although no option names them.
    """
    from prototrt.caffe_proto.common.wording import Option
    from prototrt.converter.writing.files import refuse_overwriting

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
            elif isinstance(parameter.type, StateSource) and not isinstance(each, str):
                read.append([each.file])
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
