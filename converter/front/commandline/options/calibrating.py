"""What ranges are measured on, and how: ``CalibrateOptions``; and where scales go."""

from __future__ import annotations

import click

from prototrt.caffe_proto.common.options import Options, option
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.options import NO_SUFFIX, CalibrateOptions


@dataclass(frozen=True, kw_only=True)
class ScalesFiles(Options):
    """``file`` is a file of scales, ``export_cache`` a table for another program."""

    file: str | None = option("The file of scales: JSON.", called="o", writes=(".json", NO_SUFFIX))
    export_cache: str | None = option(
        "Write the scales for TensorRT; for ncnn if FILE ends in .table; for NVDLA if in .json.", writes=()
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is None and self.export_cache is None:
            raise click.UsageError("give -o FILE.json, --export-cache FILE, or both")


@dataclass(frozen=True, kw_only=True)
class ScaleSources(Options):
    """Scales that there are already, instead of data."""

    merge: bool = option("Join two files of scales, MODEL and WEIGHTS.", False)
    scales: str | None = option("Read scales instead of data.", shown="FILE.json", reads=True)
    calibration_cache: str | None = option(
        "Read another program's table instead of data.", shown="FILE", reads=True
    )

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
