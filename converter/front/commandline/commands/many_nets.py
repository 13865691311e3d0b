"""Commands for many nets at once."""

from __future__ import annotations

from dataclasses import replace

import click

from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.frame import Commands
from prototrt.converter.front.commandline.options.common import verbosity
from prototrt.converter.front.commandline.options.parameter_types import (
    InputFile,
    NetOrFolder,
    OutputFile,
)
from prototrt.converter.front.commandline.printing import (
    print_result,
    show_lines,
    tell,
    tell_summary,
    warn,
    write_text,
)
from prototrt.converter.options import BatchOptions


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
    from prototrt.converter.front.commandline.batch.display import display
    from prototrt.converter.front.commandline.stopping import stoppable
    from prototrt.converter.front.commandline.survey import print_survey
    from prototrt.converter.front.public import convert_batch, survey_batch

    if dry_run:
        report = survey_batch(models, options=options)
        print_result(report, as_json, print_survey)
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
    """Remove conversions from FOLDER: all of them, or what the options say."""
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
    from prototrt.converter.front.commandline.survey import ask_about, print_survey
    from prototrt.converter.front.commandline.wording import in_command_line_words

    report = ask_about(nets, verbosity().quiet)
    if file is not None:
        write_text(file, result_text(in_command_line_words(report.as_dict())), json_value)
    print_result(report, as_json, print_survey)
