"""What `calibrate` reads and writes, whichever its options ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.shell_words import joined
from prototrt.converter.front.commandline.options.common import verbosity
from prototrt.converter.front.commandline.options.stages import is_on_command_line

if TYPE_CHECKING:
    from prototrt.caffe_proto.options import LoadOptions
    from prototrt.converter.checking.calibration.calibration import Calibration
    from prototrt.converter.front.commandline.options.calibrating import ScalesFiles, ScaleSources
    from prototrt.converter.options import CalibrateOptions
    from prototrt.surgery.options import RewriteOptions
    from prototrt.surgery.scales.scales_file import Scales


@dataclass(frozen=True, slots=True)
class ScalesReport:
    """Scales, the texts of the files that are written, by file, and the command to run next."""

    calibration: Calibration
    texts: Mapping[str, str]
    step: str | None = None

    @property
    def scales(self) -> Scales:
        return self.calibration.scales

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.calibration.warnings

    @property
    def calls(self) -> int:
        return sum(each.samples for each in self.scales.data)

    @property
    def summary(self) -> list[str]:
        """The files, how many blobs have scales, and what they are from."""
        blobs = len(self.scales.records)
        text = f"{', '.join(self.texts)}: scales of {blobs} blob{'s' if blobs > 1 else ''}"
        if not self.calls:
            return [text]
        text += f" from {self.calls} call{'s' if self.calls > 1 else ''}, {self.scales.method}"
        return [text] if self.step is None else [text, f"next     {self.step}"]

    def as_dict(self) -> dict[str, Any]:
        return {
            "files": [*self.texts],
            "method": self.scales.method,
            "calls": self.calls,
            "scales": {name: record.scale for name, record in self.scales.records.items()},
            "unused": [*self.calibration.unused],
            "lacking": [*self.calibration.lacking],
            "warnings": [*self.warnings],
        }


def scales_of(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    calibrating: CalibrateOptions,
    sources: ScaleSources,
    written: ScalesFiles,
) -> ScalesReport:
    """What the command was asked for; nothing is written yet."""
    if sources.merge:
        return _merged_scales(model, loading, calibrating, written)
    from prototrt.converter.checking.calibration.calibration import adopt
    from prototrt.converter.checking.calibration.exporting import table_text
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.front.commandline.progress import bar_of_parts
    from prototrt.converter.front.steps import calibrate

    net = load_with_weights(model, loading, rewriting)
    if sources.scales is not None or sources.calibration_cache is not None:
        calibration = adopt(net, sources.scales, sources.calibration_cache, rewriting)
    else:
        with bar_of_parts(verbosity().quiet) as progress:
            options = replace(calibrating, rewriting=rewriting, progress=progress)
            calibration = calibrate(net, options, every_blob=written.export_cache is not None)
    texts = {}
    if written.file is not None:
        texts[written.file] = calibration.scales.text()
    if written.export_cache is not None:
        scales = {name: record.scale for name, record in calibration.scales.records.items()}
        texts[written.export_cache] = table_text(net, scales, written.export_cache)
    return ScalesReport(calibration, texts, _next_step(model, loading, rewriting, written))


def _next_step(
    model: str, loading: LoadOptions, rewriting: RewriteOptions, written: ScalesFiles
) -> str | None:
    """The command that uses the file of scales; None if there is no such file."""
    if written.file is None:
        return None
    weights = (
        ["--random-weights", str(loading.random_weights)]
        if loading.weights is None
        else [str(loading.weights)]
    )
    preprocess = ["--preprocess"] if rewriting.preprocess else []
    scaled = ["--precision", "int8", "--scales", written.file, "-o", f"{Path(model).stem}.plan"]
    return joined(["prototrt", "convert", model, *weights, *preprocess, *scaled])


def _merged_scales(
    model: str, loading: LoadOptions, calibrating: CalibrateOptions, written: ScalesFiles
) -> ScalesReport:
    """MODEL and WEIGHTS are the files; their own method counts unless the user states one."""
    from prototrt.converter.checking.calibration.calibration import merge

    if loading.weights is None:
        raise click.UsageError("--merge needs two files of scales")
    if written.file is None or written.export_cache is not None:
        raise click.UsageError("--merge writes -o FILE.json alone: export that with --scales")
    calibration: Calibration = merge(
        [model, str(loading.weights)], calibrating.method if is_on_command_line("method") else None
    )
    return ScalesReport(calibration, {written.file: calibration.scales.text()})
