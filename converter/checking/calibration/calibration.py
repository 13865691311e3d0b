"""From a model and data to a file of scales, and from two such files to one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.notebook_html import table
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.converter.checking.calibration.collecting import blobs, collect
from prototrt.converter.checking.calibration.histogram import Histogram
from prototrt.converter.checking.calibration.methods import Method
from prototrt.converter.checking.calibration.saturation import MUCH
from prototrt.converter.files.companions.manifest import provenance
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.files.writing.texts import atomic_text, json_value
from prototrt.converter.options import CalibrateOptions, without_progress
from prototrt.converter.running.data.calls import all_data
from prototrt.surgery.building.builder import names_in
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import quantizable, quantizable_values, rewrite
from prototrt.surgery.scales.scales_file import INT8, Counts, DataSet, Scales, ValueScale, read_scales
from prototrt.surgery.scales.sources import scales_of_options


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scales of a net, and what a user should know of them.

    ``unused`` are names of a given file that fit nothing, ``lacking`` blobs that it should have.
    """

    scales: Scales
    warnings: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file of scales. Raises ``ConversionError`` where it cannot be written."""
        atomic_text(path, self.scales.text(), json_value)

    def _repr_html_(self) -> str:
        rows = [(name, f"{record.scale:g}") for name, record in self.scales.records.items()]
        return table(f"Scales, {self.scales.method}", ("blob", "scale"), rows, self.warnings)


def calibrate(model: Model, options: CalibrateOptions, *, every_blob: bool = False) -> Calibration:
    """Measure the ranges of all values that can be quantized, whichever options a conversion will have.

    With ``every_blob`` those of all other values, too: tables of other programs have them. Raises ``ConversionError``.
    """
    method = Method.of(options.method)
    options_of_net = replace(
        options.rewriting or RewriteOptions(), sequence="loop", precision="fp32", implied=("sequence",)
    )
    graph = quantizable(model, options=options_of_net)
    names = quantizable_values(graph)
    if every_blob:  # those that the float32 graph has, too, before BatchNorm and Scale are folded
        graph = rewrite(model, options=options_of_net)
        names = [*dict.fromkeys((*names, *blobs(graph)))]
    if not names:
        raise NetError(
            "there is nothing to calibrate", where=model.file, because="no product of the net is quantized"
        )
    data = all_data(options, Signature.of_graph(graph))
    collected = collect(graph, data, names, (options.progress or without_progress)(data.parts))
    records = {name: _record(histogram, method) for name, histogram in collected.histograms.items()}
    scales = Scales(
        records,
        model.name,
        str(method),
        provenance(graph),
        (DataSet(collected.samples, collected.sha256),),
    )
    warnings = (*graph.warnings, *data.warnings, *collected.warnings, *doubts(scales))
    return Calibration(scales, warnings)


def adopt(
    model: Model, scales: str | None, cache: str | None, rewriting: RewriteOptions | None = None
) -> Calibration:
    """The scales of a file, or of a table of another program, as far as they fit the model.

    Raises ``ConversionError``.
    """
    graph = quantizable(model, options=rewriting or RewriteOptions())
    measured = scales_of_options(model, scales, cache, names_in(graph))
    base = read_scales(scales) if scales is not None else Scales({}, method="table")
    records = {name: base.records.get(name, ValueScale(scale)) for name, scale in measured.scales.items()}
    missing = [name for name in quantizable_values(graph) if name not in measured.scales]
    notes = [f"{measured.file}: no scale, and therefore not quantized: {listed(missing)}"] if missing else []
    result = replace(base, records=records, network=model.name, sources=provenance(graph))
    return Calibration(result, (*measured.warnings, *notes), measured.unused, tuple(missing))


def _record(histogram: Histogram, method: Method) -> ValueScale:
    limit = method.range_of(histogram)
    counts = Counts(histogram.width, tuple(histogram.used_counts.tolist()))
    clipped = histogram.beyond(limit) / max(histogram.total, 1)
    return ValueScale(limit / INT8, histogram.largest, float(f"{clipped:.4g}"), counts)


def doubts(scales: Scales) -> list[str]:
    """Warnings about scales that hardly represent the data that the net will meet."""
    samples = sum(each.samples for each in scales.data)
    zero = [name for name, record in scales.records.items() if not record.scale]
    clipped = {
        name: record.clipped for name, record in scales.records.items() if (record.clipped or 0) > MUCH
    }
    warnings = []
    if samples == 1:
        warnings.append(
            "the data are one call of the net: give more data, so that the ranges fit other data, too"
        )
    if zero:
        warnings.append(f"always 0, and therefore not quantized: {listed(zero)}")
    if clipped:
        names = listed([f"{name} ({share:.0%})" for name, share in clipped.items()])
        warnings.append(f"more than {MUCH:.0%} of the numbers are beyond the range: {names}")
    return warnings


def merge(files: Sequence[str], method: str | None = None) -> Calibration:
    """The scales that all data of these files together give. ``method`` is theirs, unless it is stated.

    Raises ``ConversionError`` for files of different models or values, or without histograms.
    """
    first, *others = [(file, read_scales(file)) for file in files]
    histograms = _histograms(*first)
    for file, scales in others:
        _refuse_other(*first, file, scales, has_method_option=method is not None)
        for name, histogram in _histograms(file, scales).items():
            histograms[name].merge(histogram)
    chosen = Method.of(method or first[1].method)
    data = tuple(each for _, scales in (first, *others) for each in scales.data)
    records = {name: _record(histogram, chosen) for name, histogram in histograms.items()}
    kept: dict[str, tuple[str, ...]] = {}
    for _, scales in (first, *others):
        for eight, names in scales.kept.items():
            kept[eight] = tuple(dict.fromkeys((*kept.get(eight, ()), *names)))
    scales = replace(first[1], records=records, method=str(chosen), data=data, kept=kept)
    repeated = ["some of the data are in more than one file"] if len({*data}) < len(data) else []
    return Calibration(scales, (*repeated, *doubts(scales)))


def _refuse_other(first: str, scales: Scales, file: str, others: Scales, *, has_method_option: bool) -> None:
    fix: str = "calibrate the same model with both"
    if scales.weights.get("sha256") != others.weights.get("sha256"):
        raise NetError(f"was not made with the weights of {first}", where=file, fix=fix)
    if odd := sorted(scales.records.keys() ^ others.records.keys()):
        raise NetError(f"has other blobs than {first}: {listed(odd)}", where=file, fix=fix)
    if scales.method != others.method and not has_method_option:
        raise NetError(
            f"was made by the method {others.method}, but {first} by {scales.method}",
            where=file,
            fix=Worded("choose one with {}", Option("method", scales.method)),
        )


def _histograms(file: str, scales: Scales) -> dict[str, Histogram]:
    result = {}
    for name, record in scales.records.items():
        if record.histogram is None:
            raise NetError(f'"{name}" has no histogram', where=file, fix="calibrate again")
        written = record.histogram
        try:
            result[name] = Histogram.of(written.counts, written.width, record.largest or 0.0)
        except ValueError as error:
            raise NetError(
                f'"{name}": the histogram is damaged', where=file, because=str(error), fix="calibrate again"
            ) from error
    return result
