"""The options of ``prototrt batch``."""

from __future__ import annotations

from dataclasses import dataclass

import click

from prototrt.converter.commandline.options.groups import options
from prototrt.converter.commandline.options.parameter_types import InputFile, OutputFile


@dataclass(frozen=True)
class BatchOptions:
    """What ``prototrt batch`` is asked."""

    models: str
    folder: str
    jobs: int | None
    scheduler: str | None
    keep_going: bool
    report_junit: str | None
    report_json: str | None
    report_md: str | None
    cache: str | None
    verify_cache: bool | None
    dry_run: bool


batch_options = options(
    click.argument("models", metavar="MODELS.yaml", type=InputFile()),
    click.option(
        "-o", "folder", required=True, metavar="FOLDER", help="The folder for engines; created if needed."
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of processes; by default one per core.",
    ),
    click.option("--scheduler", metavar="tcp://HOST:PORT", help="Convert on this Dask cluster."),
    click.option(
        "--dry-run", is_flag=True, help="Convert nothing: report what would convert, as `survey` does."
    ),
    click.option("--keep-going", is_flag=True, help="Convert the remaining models when one fails."),
    click.option("--report-junit", type=OutputFile(), help="JUnit XML, as GitLab and Jenkins read it."),
    click.option("--report-json", type=OutputFile(), help="All facts about each model."),
    click.option("--report-md", type=OutputFile(), help="A table in Markdown, for the page of a job."),
    click.option(
        "--cache", metavar="FOLDER", help="Cache conversions here; convert only models that changed."
    ),
    click.option(
        "--verify-cache/--no-verify-cache",
        default=None,
        help="Hash cached files before they are used. By default, only those of a cache that was restored or moved.",
    ),
)


class Bytes(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """``10GB``"""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from prototrt.caffe_proto.sizes import bytes_from_text

        count = bytes_from_text(str(value))
        if count is None:
            self.fail(f'"{value}" is not a size: write 500MB, 10GB or 2GiB', param, ctx)
        return count
