"""What the commands print: tables and summaries."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.table import Table

    from prototrt.caffe_proto import Model
    from prototrt.converter.benchmark import Benchmark
    from prototrt.converter.doctor import Diagnosis
    from prototrt.converter.verification.verify import Verification
    from prototrt.surgery.ir import Array, Graph, Shape
    from prototrt.surgery.views.inspection import Blob, Inspection
    from prototrt.surgery.views.support import LayerSupport

_LAYERS = {"caffe": "Caffe layers", "caffe2": "Caffe2 operators"}
_FLOATS = {"fp32": "", "fp16": " in float16"}


def conversion_summary(
    model: Model, graph: Graph, manifest: Mapping[str, Any], path: str, seconds: float
) -> str:
    """What went in, what came out, and what a caller of the engine must feed back."""
    lines = [
        f"{model.name or Path(model.file).stem}: {len(model.layers)} {_LAYERS[model.framework]}"
        f" -> {manifest['nodes']} nodes -> {_made(manifest)}",
        *(_pair(pair.output.name, pair.input.name, pair.input.shape) for pair in graph.recurrences),
        *_verified(manifest),
        f"{path}: {_size(path)}, {seconds:.1f} s{_build_time(manifest)}{_warnings(graph.warnings)}",
    ]
    return "\n".join(lines)


def conversion_facts(
    model: Model, graph: Graph, manifest: Mapping[str, Any], path: str, seconds: float
) -> dict[str, Any]:
    """The content of the summary, for programs: the manifest, and what happened before it."""
    counts = {"caffe_layers": len(model.layers), "nodes": manifest["nodes"]}
    return {"file": path, "seconds": round(seconds, 3), **counts, "manifest": dict(manifest)}


def _made(manifest: Mapping[str, Any]) -> str:
    if "onnx" in manifest:
        return f"{manifest['onnx']['nodes']} ONNX nodes{_FLOATS[manifest['precision']]}"
    return f"{manifest['layers']} TensorRT layers{_FLOATS[manifest['precision']]}"


def _build_time(manifest: Mapping[str, Any]) -> str:
    return f", of which TensorRT {manifest['plan']['build_seconds']:.1f} s" if "plan" in manifest else ""


def _verified(manifest: Mapping[str, Any]) -> list[str]:
    """One line if the net was verified."""
    if "verification" not in manifest:
        return []
    found = manifest["verification"]
    way, worst = found["comparisons"][0]["way"], max(item["max_abs"] for item in found["comparisons"])
    return [f"verified {way} in {found['calls']} calls: off by at most {worst:.1e}"]


def _size(path: str) -> str:
    files = [Path(path), Path(f"{path}.data")]
    return f"{sum(file.stat().st_size for file in files if file.is_file()) / 1e6:.1f} MB"


def print_verification(verification: Verification) -> None:
    """The table of comparisons, and what was allowed."""
    right = (4, 5, 6, 7)
    table = _table(("way", "against", "layer", "blob", "max abs", "max rel", "RMS", "cosine", ""), right)
    for found in verification.comparisons:
        d, layer = found.difference, found.origin.layer if found.origin else ""
        numbers = (f"{d.max_abs:.2e}", f"{d.max_rel:.2e}", f"{d.rms:.2e}", f"{d.cosine:.7f}")
        table.add_row(found.way, found.against, layer, found.blob, *numbers, "" if found.holds else "differs")
    _print(table)
    calls, tolerance = verification.calls, verification.tolerance
    print(
        f"{calls} call{'s' if calls > 1 else ''}, {verification.precision}: max abs may be"
        f" {tolerance.absolute:g} + {tolerance.relative:g} of the largest magnitude"
    )


def results_summary(path: str, results: Sequence[Mapping[str, Array]]) -> str:
    """How many calls, and the shapes of what each returned."""
    shapes = ", ".join(f"{name} {_sizes(array.shape)}" for name, array in results[-1].items())
    return f"{path}: {len(results)} call{'s' if len(results) > 1 else ''}, {shapes}"


def results_facts(path: str, results: Sequence[Mapping[str, Array]]) -> dict[str, Any]:
    """The same for programs."""
    outputs = {
        name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in results[-1].items()
    }
    return {"file": path, "calls": len(results), "outputs": outputs}


def print_benchmark(benchmark: Benchmark) -> None:
    """A row for each way, then for each layer of TensorRT where they were asked for."""
    table = _table(("way", "calls", "median", "99 %", "queued"), right=(1, 2, 3, 4))
    for timing in benchmark.timings:
        times = map(_duration, (timing.median, timing.p99, timing.queued))
        table.add_row(timing.way, str(timing.calls), *times)
    _print(table)
    if benchmark.layers:
        layers = _table(("layer", "time"), right=(1,), folds=(0,))
        for layer in benchmark.layers:
            layers.add_row(layer.name, _duration(layer.seconds))
        print()
        _print(layers)


def _duration(seconds: float | None) -> str:
    """With the unit that leaves few digits."""
    if seconds is None:
        return "-"
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def print_inspection(inspection: Inspection) -> None:
    """The table of layers, the totals, inputs, outputs and recurrent pairs."""
    headers = ("layer", "type", "line", "tops", "parameters", "multiply-adds", "per step")
    table = _table(headers, right=(2, 4, 5, 6), folds=(3,))
    for layer in inspection.layers:
        tops = "\n".join(map(_blob, layer.tops))
        of_a_step = "" if layer.multiply_adds_per_step is None else f"{layer.multiply_adds_per_step:,}"
        numbers = (f"{layer.parameters:,}", f"{layer.multiply_adds:,}", of_a_step)
        table.add_row(layer.name, layer.type, str(layer.line or "-"), tops, *numbers)
    table.add_section()
    totals = (f"{inspection.parameters:,}", f"{inspection.multiply_adds:,}")
    table.add_row(f"{len(inspection.layers)} layers", "", "", "", *totals)
    _print(table)
    state = {name for pair in inspection.recurrences for name in (pair.input, pair.output)}
    for title, blobs in (("inputs", inspection.inputs), ("outputs", inspection.outputs)):
        print(f"{title:8} {', '.join(_blob(blob) for blob in blobs if blob.name not in state)}")
    for pair in inspection.recurrences:
        print(_pair(pair.output, pair.input, pair.shape))


def print_support(rows: Iterable[LayerSupport]) -> None:
    """The table of supported layers."""
    table = _table(("layer", "becomes", "notes"), folds=(1, 2))
    for row in rows:
        table.add_row(row.type, row.becomes, row.notes)
    _print(table)


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """What is installed, which driver and GPUs there are, and what that is good for."""
    from prototrt.converter.commandline.wording import in_command_line_words

    for name, version in {"python": diagnosis.python, **diagnosis.packages}.items():
        print(f"{name:15} {version or 'not installed'}")
    print(f"{'driver':15} {diagnosis.driver or 'none'}")
    for gpu in diagnosis.gpus:
        print(f"{'GPU':15} {gpu.name}, compute capability {gpu.capability}, {gpu.memory / 2**30:.0f} GiB")
    print()
    for ability in diagnosis.abilities:
        print(f"{ability.verdict:9} {ability.what}{f': {ability.reason}' if ability.reason else ''}")
        if ability.fix:
            print(f"{'':9} fix: {in_command_line_words(ability.fix)}")


def _pair(after: str, before: str, shape: Shape) -> str:
    return f"state    {after} -> {before} {_sizes(shape)}"


def _blob(blob: Blob) -> str:
    return f"{blob.name} {_sizes(blob.shape)}"


def _sizes(shape: Shape) -> str:
    """As in 1x3x224x224; a size that is known only when an engine runs is a name in brackets."""
    return "x".join(str(dim) if isinstance(dim, int) else f"[{dim}]" for dim in shape) if shape else "scalar"


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    return f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''} (above)"


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[int] = (),
    folds: Sequence[int] = (),
) -> None:
    """Rows of words; ``right`` and ``folds`` as for all tables here."""
    table = _table(headers, right, folds)
    for row in rows:
        table.add_row(*row)
    _print(table)


def _table(headers: Sequence[str], right: Sequence[int] = (), folds: Sequence[int] = ()) -> Table:
    """``right`` are columns of numbers, ``folds`` those whose text may go on in the next line."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, header in enumerate(headers):
        justify: Literal["right", "left"] = "right" if place in right else "left"
        table.add_column(header, justify=justify, overflow="fold", no_wrap=place not in folds)
    return table


def _print(table: Table) -> None:
    """As wide as the terminal; where there is none, or words would be cut, as wide as the table needs."""
    from rich.console import Console

    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
    terminal = console.width if console.is_terminal else None
    console.width = 10_000
    widest = console.measure(table).maximum
    if terminal is None:
        console.width = widest
    elif terminal >= widest:
        console.width = terminal
    else:
        table.padding = (0, 1, 0, 0)
        for column in table.columns:
            if column.no_wrap:
                column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
        console.width = max(terminal, console.measure(table).minimum)
    with console.capture() as text:
        console.print(table)
    for line in text.get().strip("\n").splitlines():
        print(line.rstrip())
