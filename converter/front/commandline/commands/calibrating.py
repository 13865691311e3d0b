"""The command that measures the scales of 8 bits on data, or takes them from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from prototrt.caffe_proto.common.options import Options, option
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.shell_words import joined
from prototrt.caffe_proto.common.wording import plural
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.options.common import verbosity
from prototrt.converter.front.commandline.options.loading import OF_CALIBRATION, net_arguments
from prototrt.converter.front.commandline.options.stages import is_on_command_line
from prototrt.converter.front.commandline.printing import Report, print_result, tell_summary, warn, write_text
from prototrt.converter.options import NO_SUFFIX, CalibrateOptions
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.converter.checking.calibration.calibration import Calibration


@dataclass(frozen=True, kw_only=True)
class ScalesFiles(Options):
    """What is written, a file of scales or a table for another program; and scales that there are, instead of data."""

    file: str | None = option("The file of scales: JSON.", called="o", writes=(".json", NO_SUFFIX))
    export_cache: str | None = option(
        "Write the scales for TensorRT; for ncnn if FILE ends in .table; for NVDLA if in .json.", writes=()
    )
    merge: bool = option("Join two files of scales, MODEL and WEIGHTS.", False)
    scales: str | None = option("Read scales instead of data.", shown="FILE.json", reads=True)
    calibration_cache: str | None = option(
        "Read another program's table instead of data.", shown="FILE", reads=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is None and self.export_cache is None:
            raise click.UsageError("give -o FILE.json, --export-cache FILE, or both")

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


@command(net_arguments, only=OF_CALIBRATION)
def calibrate(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    calibrating: CalibrateOptions,
    asked: ScalesFiles,
    as_json: bool,
) -> None:
    """Run MODEL with WEIGHTS on data, and write the scale of each value that int8 or fp8 quantizes.

    The data should be like those that the net will meet: some hundred images, say. State is carried from call to
    call as for `run`; each file starts anew. Weights need no data: each of their channels has its own scale.
    """
    from prototrt.converter.files.writing.texts import json_value

    asked.refuse_beside(calibrating)
    if asked.merge:
        result = _merged_scales(model, loading, calibrating, asked)
    else:
        result = _scales(model, loading, rewriting, calibrating, asked)
    warn(result.calibration.warnings)
    for target, text in result.texts.items():
        is_json = target == asked.file or target.lower().endswith(".json")
        write_text(target, text, json_value if is_json else None)
    print_result(_report(result), as_json, tell_summary)


class ScalesTexts(NamedTuple):
    """Scales, the texts of the files that are written, by file, and the command to run next."""

    calibration: Calibration
    texts: Mapping[str, str]
    step: str | None = None


def _report(result: ScalesTexts) -> Report:
    """The files, how many blobs have scales, and what they are from."""
    calibration, scales = result.calibration, result.calibration.scales
    calls = sum(each.samples for each in scales.data)
    text = f"{', '.join(result.texts)}: scales of {plural(len(scales.records), 'blob')}"
    origin = f" from {plural(calls, 'call')}, {scales.method}" if calls else ""
    steps = [f"next     {result.step}"] if calls and result.step else []
    facts = {
        "files": [*result.texts],
        "method": scales.method,
        "calls": calls,
        "scales": {name: record.scale for name, record in scales.records.items()},
        "unused": [*calibration.unused],
        "lacking": [*calibration.lacking],
        "warnings": [*calibration.warnings],
    }
    return Report([text + origin, *steps], facts)


def _scales(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    calibrating: CalibrateOptions,
    asked: ScalesFiles,
) -> ScalesTexts:
    """Those of data, or of another file; nothing is written yet."""
    from prototrt.converter.checking.calibration.calibration import adopt
    from prototrt.converter.checking.calibration.exporting import table_text
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.front import steps
    from prototrt.converter.front.commandline.progress import bar_of_parts

    net = load_with_weights(model, loading, rewriting)
    if asked.scales is not None or asked.calibration_cache is not None:
        calibration = adopt(net, asked.scales, asked.calibration_cache, rewriting)
    else:
        with bar_of_parts(verbosity().quiet) as progress:
            options = replace(calibrating, rewriting=rewriting, progress=progress)
            calibration = steps.calibrate(net, options, every_blob=asked.export_cache is not None)
    texts, step = {}, None
    if asked.file is not None:
        texts[asked.file] = calibration.scales.text()
        step = _next_step(model, loading, rewriting, asked.file)
    if asked.export_cache is not None:
        scales = {name: record.scale for name, record in calibration.scales.records.items()}
        texts[asked.export_cache] = table_text(net, scales, asked.export_cache)
    return ScalesTexts(calibration, texts, step)


def _next_step(model: str, loading: LoadOptions, rewriting: RewriteOptions, file: str) -> str:
    """The command that uses the file of scales."""
    seed = ["--random-weights", str(loading.random_weights)]
    weights = seed if loading.weights is None else [str(loading.weights)]
    preprocess = ["--preprocess"] if rewriting.preprocess else []
    scaled = ["--precision", "int8", "--scales", file, "-o", f"{Path(model).stem}.plan"]
    return joined(["prototrt", "convert", model, *weights, *preprocess, *scaled])


def _merged_scales(
    model: str, loading: LoadOptions, calibrating: CalibrateOptions, asked: ScalesFiles
) -> ScalesTexts:
    """MODEL and WEIGHTS are the files; their own method counts unless the user states one."""
    from prototrt.converter.checking.calibration.calibration import merge

    if loading.weights is None:
        raise click.UsageError("--merge needs two files of scales")
    if asked.file is None or asked.export_cache is not None:
        raise click.UsageError("--merge writes -o FILE.json alone: export that with --scales")
    method = calibrating.method if is_on_command_line("method") else None
    calibration = merge([model, str(loading.weights)], method)
    return ScalesTexts(calibration, {asked.file: calibration.scales.text()})
