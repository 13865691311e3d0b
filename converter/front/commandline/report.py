"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prototrt.caffe_proto.common.wording import Option, Worded, plural
from prototrt.converter.files.machine_types import names_of
from prototrt.converter.files.machines import version as version_of
from prototrt.converter.front.commandline.printing import show, warn
from prototrt.converter.front.commandline.summaries import blob_text, state_line, stream_lines
from prototrt.converter.front.commandline.tables import Table
from prototrt.converter.front.commandline.wording import in_command_line_words
from prototrt.surgery.ir.shapes import ranges

if TYPE_CHECKING:
    from prototrt.converter.checking.machines.benchmark import Benchmark
    from prototrt.converter.checking.machines.doctor import Diagnosis
    from prototrt.converter.checking.verification.quantization import OutputCost, QuantizationCost
    from prototrt.converter.checking.verification.verification import Verification
    from prototrt.converter.front.parameters.editing import ParameterList
    from prototrt.surgery.views.inspection import Inspection
    from prototrt.surgery.views.support import LayerSupport


def print_verification(verification: Verification) -> None:
    """The table of comparisons, what was allowed, warnings, and the verdict."""
    right = (4, 5, 6, 7)
    table = Table(("way", "against", "layer", "blob", "max abs", "max rel", "RMS", "cosine", ""), right)
    for comparison in verification.comparisons:
        d, layer = comparison.difference, comparison.origin.layer if comparison.origin else ""
        numbers = (f"{d.max_abs:.2e}", f"{d.max_rel:.2e}", f"{d.rms:.2e}", f"{d.cosine:.7f}")
        table.add_row(
            comparison.way,
            comparison.against,
            layer,
            comparison.blob,
            *numbers,
            "" if comparison.holds else "differs",
        )
    table.show()
    calls, tolerance = verification.calls, verification.tolerance
    show(
        f"{plural(calls, 'call')}, {verification.precision}: max abs may be"
        f" {tolerance.absolute:g} + {tolerance.relative:g} of the largest magnitude"
    )
    show(in_command_line_words(verification.covers))
    if verification.cost is not None:
        _print_cost(verification.cost)
    warn(verification.warnings)
    show(verification.verdict)


_COST = ("max abs", "max rel", "RMS", "cosine", "agreement")


def _print_cost(cost: QuantizationCost) -> None:
    """What 8 bits change: the outputs, and the worst output for each layer alone."""
    outputs = Table(("output, against float32", *_COST), right=(1, 2, 3, 4, 5))
    for each in cost.outputs:
        outputs.add_row(each.output, *_numbers(each))
    layers = Table(("quantized alone", "type", "line", *_COST), right=(2, 3, 4, 5, 6, 7))
    for layer in cost.layers:
        origin = layer.layer
        layers.add_row(origin.layer, origin.type, str(origin.line or "-"), *_numbers(layer.worst))
    outputs.show()
    layers.show()
    if cost.kept:
        show(f"{cost.score:.4f} with {' '.join(f'--keep-float {name}' for name in cost.kept)}")


def _numbers(cost: OutputCost) -> tuple[str, ...]:
    agreement = "-" if cost.agreement is None else f"{cost.agreement:.4f}"
    return f"{cost.max_abs:.2e}", f"{cost.max_rel:.2e}", f"{cost.rms:.2e}", f"{cost.cosine:.7f}", agreement


def print_benchmark(benchmark: Benchmark) -> None:
    """A row for each way, then for each layer of TensorRT where they were asked for."""
    table = Table(("way", "calls", "median", "99 %", "queued"), right=(1, 2, 3, 4))
    for timing in benchmark.timings:
        times = map(_duration, (timing.median, timing.p99, timing.queued))
        table.add_row(timing.way, str(timing.calls), *times)
    table.show()
    if benchmark.layers:
        layers = Table(("layer", "time"), right=(1,), folds=(0,))
        for layer in benchmark.layers:
            layers.add_row(layer.name, _duration(layer.seconds))
        show()
        layers.show()


def _duration(seconds: float | None) -> str:
    """Three digits, with the unit that leaves few of them before the point."""
    if seconds is None:
        return "-"
    unit, factor = "s", 1.0
    if seconds < 1:
        unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    number = seconds * factor
    decimals = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:.{decimals}f} {unit}"


def print_inspection(inspection: Inspection) -> None:
    """The table of layers, the totals, inputs, outputs, recurrent pairs, and warnings."""
    headers = ("layer", "type", "line", "tops", "parameters", "multiply-adds", "per step")
    table = Table(headers, right=(2, 4, 5, 6), folds=(3,))
    for layer in inspection.layers:
        tops = [blob_text(blob.name, blob.shape) for blob in layer.tops]
        of_a_step = "" if layer.multiply_adds_per_step is None else f"{layer.multiply_adds_per_step:,}"
        numbers = (f"{layer.parameters:,}", f"{layer.multiply_adds:,}", of_a_step)
        table.add_row(layer.name, layer.type, str(layer.line or "-"), tops, *numbers)
    table.add_section()
    totals = (f"{inspection.parameters:,}", f"{inspection.multiply_adds:,}")
    table.add_row(f"{len(inspection.layers)} layers", "", "", "", *totals)
    table.show()
    axes = {blob.name: blob.axes for blob in inspection.inputs}
    state = {name for pair in inspection.recurrences for name in (pair.input, pair.output)}
    for title, blobs in (("inputs", inspection.inputs), ("outputs", inspection.outputs)):
        own = (blob for blob in blobs if blob.name not in state)
        show(f"{title:8} {', '.join(blob_text(blob.name, blob.shape, blob.axes) for blob in own)}")
    for pair in inspection.recurrences:
        show(state_line(pair.output, pair.input, pair.shape, axes[pair.input]))
    for pair in inspection.likely_recurrences:
        option = Option("recurrences", {pair.output: pair.input})
        names = f"{pair.output} -> {blob_text(pair.input, pair.shape)}"
        show(in_command_line_words(Worded("state?   {}: if so, convert with {}", names, option)))
    for line in () if inspection.stream is None else stream_lines(inspection.stream):
        show(line)
    if inspection.sizes:
        show(f"sizes    {ranges(inspection.sizes)}; multiply-adds are for the usual sizes")
    warn(inspection.warnings)


def print_support(rows: Iterable[LayerSupport]) -> None:
    """The table of supported layers."""
    table = Table(("layer", "becomes", "notes"), folds=(0, 1, 2))
    for row in rows:
        table.add_row(row.type, row.becomes, row.notes)
    table.show()


def print_parameters(result: ParameterList) -> None:
    """The table of parameters, a row for each gate."""
    table = Table(("layer", "type", "line", "parameter", "gate", "shape"), right=(2,))
    for each in result.parameters:
        origin, shape = each.layer.origin, " x ".join(map(str, each.shape))
        table.add_row(
            each.layer.name, each.layer.type, str(origin.line or "-"), each.name, each.gate or "", shape
        )
    table.show()


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """What is installed, which driver and GPUs there are, and what that is good for."""
    from prototrt.converter.checking.machines.doctor import PACKAGES

    show(f"{'python':15} {diagnosis.python}")
    for name, version in diagnosis.packages.items():
        show(f"{name:15} {version or 'not installed':15} {PACKAGES.get(name, '')}".rstrip())
    show(f"{'driver':15} {diagnosis.driver or 'none'}")
    for gpu in diagnosis.gpus:
        types = names_of(version_of(gpu.capability)) or "types not known"
        size = f"{gpu.memory / 2**30:.0f} GiB"
        show(f"{'GPU':15} {gpu.name}, compute capability {gpu.capability}, {size}; {types}")
    show()
    for ability in diagnosis.abilities:
        show(f"{ability.verdict:9} {ability.what}{f': {ability.reason}' if ability.reason else ''}")
        if ability.fix:
            show(f"{'':9} fix: {in_command_line_words(ability.fix)}")
