"""The options of ``prototrt batch``."""

from __future__ import annotations

import click

from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import InputFile, OutputFile
from prototrt.converter.options import BatchOptions

batch_options = options(
    click.argument("models", metavar="MODELS.yaml", type=InputFile()),
    field_option(BatchOptions, "folder", "-o", required=True, metavar="FOLDER"),
    field_option(BatchOptions, "jobs", metavar="N"),
    field_option(BatchOptions, "scheduler", metavar="tcp://HOST:PORT"),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Convert nothing: report what would convert, before a build or a check of results.",
    ),
    field_option(BatchOptions, "keep_going"),
    field_option(BatchOptions, "report_junit", type=OutputFile()),
    field_option(BatchOptions, "report_json", type=OutputFile()),
    field_option(BatchOptions, "report_md", type=OutputFile()),
    field_option(BatchOptions, "cache", metavar="FOLDER"),
    field_option(BatchOptions, "verify_cache", "--verify-cache/--no-verify-cache"),
)


class Bytes(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """``10GB``"""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from prototrt.caffe_proto.common.memory import bytes_from_text

        count = bytes_from_text(str(value))
        if count is None:
            self.fail(f'"{value}" is not a size: write 500MB, 10GB or 2GiB', param, ctx)
        return count
