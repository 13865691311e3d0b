"""What ranges are measured on, and how: ``CalibrateOptions``; and where scales go."""

from __future__ import annotations

from dataclasses import dataclass

import click

from prototrt.converter.front.commandline.options.data import data_options, image_options
from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import InputFile, OutputFile
from prototrt.converter.options import NO_SUFFIX, CalibrateOptions


@dataclass(frozen=True, slots=True)
class ScalesFiles:
    """``target`` is a file of scales, ``export_cache`` a table for another program."""

    target: str | None
    export_cache: str | None

    def __post_init__(self) -> None:
        if self.target is None and self.export_cache is None:
            raise click.UsageError("give -o FILE.json, --export-cache FILE, or both")


@dataclass(frozen=True, slots=True)
class ScaleSources:
    """Scales that there are already, instead of data."""

    merge: bool
    scales: str | None
    calibration_cache: str | None

    def refuse_beside(self, data: CalibrateOptions) -> None:
        """Raise ``UsageError`` if there is more than one source, or none."""
        sources = {
            "--inputs": data.inputs,
            "--data-loader": data.data_loader,
            "--scales": self.scales,
            "--calibration-cache": self.calibration_cache,
            "--merge": self.merge or None,
        }
        names = [name for name, value in sources.items() if value is not None]
        if len(names) != 1:
            problem = f"{' and '.join(names)} are different sources" if names else "there are no data"
            raise click.UsageError(f"{problem}: give one of {', '.join(sources)}")


calibrate_options = options(
    click.option("-o", "target", type=OutputFile(".json", NO_SUFFIX), help="The file of scales: JSON."),
    data_options,
    field_option(CalibrateOptions, "method", metavar="METHOD"),
    image_options,
    click.option(
        "--export-cache",
        type=OutputFile(),
        help="Write the scales for TensorRT; for ncnn if FILE ends in .table; for NVDLA if in .json.",
    ),
    click.option("--merge", is_flag=True, help="Join two files of scales, MODEL and WEIGHTS."),
    click.option("--scales", type=InputFile(), metavar="FILE.json", help="Read scales instead of data."),
    click.option(
        "--calibration-cache",
        type=InputFile(),
        metavar="FILE",
        help="Read another program's table instead of data.",
    ),
)
