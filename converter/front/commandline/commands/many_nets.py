"""Commands for many nets at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.common.wording import plural, worded
from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.frame import Commands
from prototrt.converter.front.commandline.options.common import verbosity
from prototrt.converter.front.commandline.options.parameter_types import InputFile, NetOrFolder, OutputFile
from prototrt.converter.front.commandline.printing import (
    print_result,
    show,
    show_lines,
    tell,
    tell_summary,
    warn,
    write_text,
)
from prototrt.converter.front.commandline.wording import command_line_words, in_command_line_words
from prototrt.converter.options import BatchOptions

if TYPE_CHECKING:
    from prototrt.converter.showing.survey.survey import Survey, SurveyedNet, Verdict

_MOST_OBSTACLES = 20


@command(
    click.argument("models", metavar="MODELS.yaml", type=InputFile()),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Convert nothing: report what would convert, before a build or a check of results.",
    ),
)
def batch(models: str, options: BatchOptions, dry_run: bool, as_json: bool) -> None:
    """Convert all models listed in MODELS.yaml.

    Each model has its own process: a crash, a hang or a lack of memory ends that model only.
    The exit code is that of the worst model.
    """
    from prototrt.converter.front.batch.reports import json_report
    from prototrt.converter.front.commandline.batch_display import display
    from prototrt.converter.front.commandline.stopping import stoppable
    from prototrt.converter.front.public import convert_batch, survey_batch

    if dry_run:
        report = survey_batch(models, options=options)
        print_result(report, as_json, partial(print_survey, is_list=True))
        click.get_current_context().exit(0 if report.is_whole else 3)
    with stoppable(), display(verbosity().quiet) as progress:
        result = convert_batch(models, options=replace(options, progress=progress))
    warn(result.warnings, insist=result.warnings_of_left_out)
    if as_json:
        show_lines(json_report(result), end="")
    else:
        tell(result.summary)
    click.get_current_context().exit(result.exit_code)


@click.group(cls=Commands)
def cache() -> None:
    """The conversions that `batch --cache` keeps."""


@command(
    click.argument("folder"),
    click.option(
        "--older-than",
        type=click.FloatRange(min=0),
        metavar="DAYS",
        help="Remove entries not used for this long.",
    ),
    click.option(
        "--max-size",
        metavar="SIZE",
        help="Remove the least recently used entries above this size, as in 10GB.",
    ),
    group=cache,
)
def prune(folder: str, older_than: float | None, max_size: str | None, as_json: bool) -> None:
    """Remove all conversions from FOLDER, or those the options name."""
    from prototrt.converter.front.public import prune_cache

    pruned = prune_cache(folder, older_than=older_than, max_size=max_size)
    print_result(pruned, as_json, tell_summary)


@command(
    click.argument("nets", metavar="NET_OR_FOLDER...", nargs=-1, required=True, type=NetOrFolder()),
    click.option("-o", "file", type=OutputFile(".json"), help="Write the report as JSON."),
)
def survey(nets: tuple[str, ...], file: str | None, as_json: bool) -> None:
    """Try all nets, and those below folders, without building anything.

    Weights are not needed. Where a net does not state the shape of an input, a usual one is tried; it still needs one.
    """
    from prototrt.converter.files.writing.files import result_text
    from prototrt.converter.files.writing.texts import json_value

    report = _survey_of(nets)
    if file is not None:
        write_text(file, result_text(in_command_line_words(report.as_dict())), json_value)
    print_result(report, as_json, print_survey)


def _survey_of(paths: Sequence[str]) -> Survey:
    """Survey the nets, and those below folders, with a bar on a terminal."""
    from prototrt.caffe_proto.common.errors import NetError
    from prototrt.converter.front.commandline.progress import bar_of_parts
    from prototrt.converter.showing.survey.survey import survey

    with bar_of_parts(verbosity().quiet) as progress:
        report = survey(paths, progress)
    if not report.nets:
        raise NetError(
            "there are no nets here",
            where=", ".join(paths),
            fix="give prototxts, or folders with files whose names end in .prototxt",
        )
    return report


def print_survey(survey: Survey, *, is_list: bool = False) -> None:
    """Print how many nets convert, which do not, and what stops them, unless ``-q``.

    The messages of a list of models, or of a single net, are printed whole.
    """
    from prototrt.converter.front.commandline.tables import Table
    from prototrt.converter.showing.survey.survey import Verdict

    if verbosity().quiet:
        return
    rest = [net for net in survey.nets if net.verdict is not Verdict.CONVERTS]
    if rest:
        table = Table(("net", "result", "missing"), folds=(0, 2))
        for net in rest:
            table.add_row(net.file, net.verdict.value, ", ".join(net.lacking) or _first_line(net))
        table.show()
    if survey.obstacles:
        table = Table(("missing", "nets", "only this missing"), right=(1, 2), folds=(0,))
        for name, count, alone in survey.obstacles[:_MOST_OBSTACLES]:
            table.add_row(name, str(count), str(alone))
        table.show()
    if survey.steps:
        table = Table(("next steps", "nets that each makes whole"), right=(1,), folds=(0,))
        for step, count in survey.steps:
            table.add_row(worded(step, command_line_words), str(count))
        table.show()
    for net in rest if is_list or len(survey.nets) == 1 else ():
        message = worded(net.message, command_line_words)
        if "\n" in message:  # else the table shows it
            show_lines(f"{visible_line(net.file)}: {message}", err=True)
    warn([net.note for net in survey.nets if net.note])
    counts = ", ".join(_count_text(verdict, survey.count(verdict)) for verdict in Verdict)
    number, tried = len(survey.nets), survey.only_tried
    vain = (
        f"; with the shapes that were tried, {tried} of those that need one did not convert" if tried else ""
    )
    show(f"{plural(number, 'net')}: {counts}{vain}")


_OF_SEVERAL = {
    "converts": "convert",
    "needs a shape": "need a shape",
    "converts in part": "convert in part",
    "does not convert": "do not convert",
}


def _count_text(verdict: Verdict, count: int) -> str:
    return f"{count} {verdict.value if count == 1 else _OF_SEVERAL[verdict.value]}"


def _first_line(net: SurveyedNet) -> str:
    """The first line of the message, without the name of the file, which is in the row already."""
    message = worded(net.message, command_line_words).partition("\n")[0].removeprefix(f"{net.file}:").lstrip()
    number, colon, rest = message.partition(": ")
    return f"line {number}{colon}{rest}" if number.isdigit() else message
