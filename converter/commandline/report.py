"""What the commands print: tables and summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prototrt.converter.commandline.tables import Table
from prototrt.converter.commandline.terminal import show

if TYPE_CHECKING:
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
    table = Table(("way", "against", "layer", "blob", "max abs", "max rel", "RMS", "cosine", ""), right)
    for found in verification.comparisons:
        d, layer = found.difference, found.origin.layer if found.origin else ""
        numbers = (f"{d.max_abs:.2e}", f"{d.max_rel:.2e}", f"{d.rms:.2e}", f"{d.cosine:.7f}")
        table.add_row(found.way, found.against, layer, found.blob, *numbers, "" if found.holds else "differs")
    table.show()
    calls, tolerance = verification.calls, verification.tolerance
    show(
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
    table = Table(headers, right=(2, 4, 5, 6), folds=(3,))
    for layer in inspection.layers:
        tops = "\n".join(map(_blob, layer.tops))
        of_a_step = "" if layer.multiply_adds_per_step is None else f"{layer.multiply_adds_per_step:,}"
        numbers = (f"{layer.parameters:,}", f"{layer.multiply_adds:,}", of_a_step)
        table.add_row(layer.name, layer.type, str(layer.line or "-"), tops, *numbers)
    table.add_section()
    totals = (f"{inspection.parameters:,}", f"{inspection.multiply_adds:,}")
    table.add_row(f"{len(inspection.layers)} layers", "", "", "", *totals)
    table.show()
    state = {name for pair in inspection.recurrences for name in (pair.input, pair.output)}
    for title, blobs in (("inputs", inspection.inputs), ("outputs", inspection.outputs)):
        show(f"{title:8} {', '.join(_blob(blob) for blob in blobs if blob.name not in state)}")
    for pair in inspection.recurrences:
        show(_pair(pair.output, pair.input, pair.shape))


def print_support(rows: Iterable[LayerSupport]) -> None:
    """The table of supported layers."""
    table = Table(("layer", "becomes", "notes"), folds=(1, 2))
    for row in rows:
        table.add_row(row.type, row.becomes, row.notes)
    table.show()


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """What is installed, which driver and GPUs there are, and what that is good for."""
    from prototrt.converter.commandline.wording import in_command_line_words

    for name, version in {"python": diagnosis.python, **diagnosis.packages}.items():
        show(f"{name:15} {version or 'not installed'}")
    show(f"{'driver':15} {diagnosis.driver or 'none'}")
    for gpu in diagnosis.gpus:
        show(f"{'GPU':15} {gpu.name}, compute capability {gpu.capability}, {gpu.memory / 2**30:.0f} GiB")
    show()
    for ability in diagnosis.abilities:
        show(f"{ability.verdict:9} {ability.what}{f': {ability.reason}' if ability.reason else ''}")
        if ability.fix:
            show(f"{'':9} fix: {in_command_line_words(ability.fix)}")


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
