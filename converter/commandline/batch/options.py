"""The options of ``prototrt batch``."""

from __future__ import annotations

import click

from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import InputFile, OutputFile
from prototrt.converter.options import BatchOptions

batch_options = options(
    click.argument("models", metavar="MODELS.yaml", type=InputFile()),
    click.option(
        "-o", "folder", required=True, metavar="FOLDER", help="The folder for engines; created if needed."
    ),
    declared(BatchOptions, "jobs", metavar="N", help="Number of processes; by default one per core."),
    declared(BatchOptions, "scheduler", metavar="tcp://HOST:PORT", help="Convert on this Dask cluster."),
    click.option(
        "--dry-run", is_flag=True, help="Convert nothing: report what would convert, as `survey` does."
    ),
    declared(BatchOptions, "keep_going", help="Convert the remaining models when one fails."),
    declared(
        BatchOptions, "report_junit", type=OutputFile(), help="JUnit XML, as GitLab and Jenkins read it."
    ),
    declared(BatchOptions, "report_json", type=OutputFile(), help="All facts about each model."),
    declared(
        BatchOptions, "report_md", type=OutputFile(), help="A table in Markdown, for the page of a job."
    ),
    declared(
        BatchOptions,
        "cache",
        metavar="FOLDER",
        help="Cache conversions here; convert only models that changed.",
    ),
    declared(
        BatchOptions,
        "verify_cache",
        "--verify-cache/--no-verify-cache",
        help="Hash cached files before they are used. By default, only those of a cache that was restored or moved.",
    ),
)


class Bytes(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """``10GB``"""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from prototrt.caffe_proto.common.sizes import bytes_from_text

        count = bytes_from_text(str(value))
        if count is None:
            self.fail(f'"{value}" is not a size: write 500MB, 10GB or 2GiB', param, ctx)
        return count
