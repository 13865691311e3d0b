"""What commands that write models report at their end, in a few lines or as facts for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.shell_words import joined, quoted
from prototrt.caffe_proto.common.wording import listed, plural, worded
from prototrt.converter.files.companions.cpp_header import namespace_of
from prototrt.converter.files.companions.script import plan_of, script_of
from prototrt.converter.front.commandline.printing import Report
from prototrt.converter.front.commandline.wording import command_line_words
from prototrt.surgery.ir.shapes import ranges, sizes

if TYPE_CHECKING:
    from prototrt.converter.checking.machines.targets import Target
    from prototrt.converter.conversion import Converted
    from prototrt.converter.serving.deepstream.folder import WrittenFolder
    from prototrt.converter.serving.triton.repository import WrittenModel
    from prototrt.converter.serving.triton.served import ServedGraph
    from prototrt.surgery.ir import Array, Graph, Shape, StreamLags

_LAYERS = {"caffe": "Caffe layers", "caffe2": "Caffe2 operators"}
_FLOATS = {
    "fp32": "",
    "fp16": " in float16",
    "bf16": " in bfloat16",
    "int8": " in int8 and float16",
    "fp8": " in float8 and float16",
    "int8,bf16": " in int8 and bfloat16",
    "fp8,bf16": " in float8 and bfloat16",
}

_ELSEWHERE = {
    "rtx": "where TensorRT itself can build, it chooses enterprise (--backend rtx: always rtx)",
    "enterprise": "where TensorRT itself cannot build, it chooses rtx (--backend enterprise: never rtx)",
}
"""What ``--backend auto`` chooses on another machine, by the backend that it chose here."""


def conversion_report(made: Converted) -> Report:
    """Of a conversion that succeeded: where the result runs, what it is, and what a caller of it must feed back."""
    manifest, product = made.manifest, made.product
    target, header = product.target, product.converting.emit_header
    runs_on = where_it_runs(manifest, target)
    facts = {
        "file": product.file,
        **({"header": header} if header is not None else {}),
        "seconds": round(made.seconds, 3),
        "caffe_layers": len(made.model.layers),
        "nodes": manifest["nodes"],
        "runs_on": runs_on,
        "digest": made.digest,
        "manifest": dict(manifest),
    }
    return Report([f"runs on  {runs_on}", *_conversion_lines(made)], facts)


def _conversion_lines(made: Converted) -> Iterator[str]:
    model, manifest, product = made.model, made.manifest, made.product
    target, header = product.target, product.converting.emit_header
    yield (
        f"{model.name or Path(model.file).stem}: {len(model.layers)} {_LAYERS[model.framework]}"
        f" -> {plural(manifest['nodes'], 'node')} -> {_made(manifest)}"
    )
    yield from _bindings(made.graph)
    yield from (f"left out {layer.origin.note}" for layer in made.graph.left_out)
    if "verification" in manifest:
        yield _verified(manifest["verification"])
    if target is None and product.building.backend == "auto" and "tensorrt" in manifest:
        flavour = manifest["tensorrt"]["flavour"]
        yield f"backend  auto chose {flavour}; {_ELSEWHERE[flavour]}"
    if header is not None:
        yield f"{header}: namespace {namespace_of(header)}"  # which is what a program needs
    warnings = f", {plural(len(made.warnings), 'warning')} (above)" if made.warnings else ""
    yield f"{product.file}: {_size(product.file)}, {made.seconds:.1f} s{warnings}"
    if target is not None:  # else nobody said what the machine is
        yield from next_steps(product.file, manifest, target)


def _bindings(graph: Graph) -> Iterator[str]:
    """The recurrent pairs, and what varies; in other layouts than Caffe's also inputs, outputs and their axes."""
    is_moved = graph.layout.name != "caffe"
    axes = {name: layout.names for name, layout in graph.layout.bindings.items()} if is_moved else {}
    states = {*graph.state_inputs, *graph.state_outputs}
    for title, values in (("input", graph.inputs), ("output", graph.outputs)) if is_moved else ():
        for value in values:
            if value not in states:
                yield f"{title:8} {blob_text(value.name, value.shape, axes[value.name])}"
    for pair in graph.recurrences:
        name = pair.input.name
        yield state_line(pair.output.name, name, pair.input.shape, axes.get(name, ()))
    if graph.stream is not None:
        yield from stream_lines(graph.stream)
    if graph.symbols:
        yield f"sizes    {ranges(graph.symbols)}"


def _made(manifest: Mapping[str, Any]) -> str:
    if "torch" in manifest:
        return f"a PyTorch module with {plural(manifest['torch']['tensors'], 'tensor')}"
    floats = _FLOATS[manifest["precision"]]
    if "tensorrt_python" in manifest:
        return f"a program for {plural(manifest['layers'], 'TensorRT layer')}{floats}"
    if "onnx" in manifest:
        return f"{plural(manifest['onnx']['nodes'], 'ONNX node')}{floats}{_operators(manifest)}"
    return f"{plural(manifest['layers'], 'TensorRT layer')}{floats}"


def _operators(manifest: Mapping[str, Any]) -> str:
    """How many recurrences are operators of ONNX, where the user asked for them."""
    count = manifest["onnx"].get("recurrent_operators")
    if count is None:
        return ""
    total = count + manifest["onnx"]["scans"]
    return f", an operator for {count} of {total} recurrence{'' if total == 1 else 's'}"


def where_it_runs(manifest: Mapping[str, Any], target: Target | None = None) -> str:
    """The programs, or the TensorRT and the GPUs, that run what was made."""
    if "torch" in manifest:
        return "Python with torch and safetensors: the module's load() returns the net"
    if "onnx" in manifest or "tensorrt_python" in manifest:
        if target is not None:
            return target.runs_on
        if plugins := manifest.get("user_plugins"):
            names = listed([plugin["name"] for plugin in plugins])
            return f"TensorRT's trtexec, with --staticPlugins=FILE for the library of {names}"
        return (
            f"any program that reads ONNX, opset {manifest['onnx']['opset']}: onnxruntime, TensorRT's trtexec"
        )
    from prototrt.converter.checking.machines import gpu_support

    return gpu_support.where_it_runs(manifest["tensorrt"])


def _verified(checks: Mapping[str, Any]) -> str:
    way, worst = checks["comparisons"][0]["way"], max(item["max_abs"] for item in checks["comparisons"])
    return f"verified {way} in {checks['calls']} calls: off by at most {worst:.1e}"


def _size(path: str) -> str:
    files = [Path(path), Path(f"{path}.data")]
    return text_of_bytes(sum(file.stat().st_size for file in files if file.is_file()))


def next_steps(path: str, manifest: Mapping[str, Any], target: Target) -> list[str]:
    """The lines about the next command on this machine."""
    remark = [f"note     {worded(target.remark, command_line_words)}"] if target.remark else []
    if "trtexec" in manifest:
        lines = [*remark, *_repository(target), *_without_onnx(target)]
        return [*lines, *_with_trtexec(path, manifest["trtexec"], target)]
    name = Path(path).name
    if "tensorrt_python" in manifest:
        files, plan = f"{quoted(name)} and {quoted(manifest['tensorrt_python']['weights'])}", plan_of(path)
        command = joined(["python", name, "-o", plan])
        return [f"next     copy {files} to {target.machine}, and type there: {command}"]
    if target.backend is not None:
        command = joined(["prototrt", "run", name, "--inputs", "in.npz", "-o", "out.npz"])
        return [f"next     on {target.machine} with such a GPU: {command}"]
    return [*remark, f"next     {joined(['python', '-c', target.first_look.format(json.dumps(name))])}"]


def _repository(target: Target) -> list[str]:
    """One line about the command that does all of it for a server."""
    if not target.batches:
        return []
    return ["next     prototrt triton MODEL WEIGHTS -o REPOSITORY writes all that Triton needs"]


def _with_trtexec(path: str, command: list[str], target: Target) -> list[str]:
    written = [file for file in (path, f"{path}.data", script_of(path)) if Path(file).is_file()]
    *files, script = [quoted(Path(file).name) for file in written]
    begin = "or" if target.batches else "next"
    return [
        f"{begin:8} copy {', '.join(files)} and {script} to {target.machine}, and type there: sh {script}",
        f"         it runs {joined(command)}",
    ]


def _without_onnx(target: Target) -> list[str]:
    """One line about the program that builds there what is built for RTX, by the API of TensorRT 10."""
    if target.batches or target.release < (10, 0):
        return []
    return [
        "note     --target tensorrt-python writes a program instead, which builds our network there without ONNX"
    ]


def report_of_calls(
    path: str, results: Sequence[Mapping[str, Array]], on: str, pixels: str, boxes: str
) -> Report:
    """Of calls, whose results were written to a file.

    ``on`` is the way of running, ``pixels`` what images became, ``boxes`` which were drawn.
    """
    shapes = ", ".join(f"{name} {sizes(array.shape)}" for name, array in results[-1].items())
    outputs = {
        name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in results[-1].items()
    }
    lines = [
        *([f"pixels   {pixels}"] if pixels else []),
        f"{path}: {plural(len(results), 'call')} on {on}, {shapes}",
        *([boxes] if boxes else []),
    ]
    of_images = {"pixels": pixels} if pixels else {}
    return Report(lines, {"file": path, "calls": len(results), "on": on, **of_images, "outputs": outputs})


def server_report(written: WrittenModel, repository: str, seconds: float) -> Report:
    """Of a model in a repository: what clients send and get, what to do next. ``seconds`` are those of all steps."""
    served = written.served
    inputs = {value.name: served.of_request(value) for value in served.inputs}
    outputs = {value.name: served.of_request(value) for value in served.outputs}
    size = sum(file.stat().st_size for file in written.folder.rglob("*") if file.is_file())
    lines = [
        f"{written.folder.name}: {written.platform}, {_requests(served)}",
        *(f"send     {name} {sizes(shape)}" for name, shape in inputs.items()),
        *(f"receive  {name} {sizes(shape)}" for name, shape in outputs.items()),
        *(f"left out {layer.origin.note}" for layer in served.graph.left_out),
        f"{written.folder}: {text_of_bytes(size)}, {seconds:.1f} s",
        *(f"next     {step}" for step in _steps_to_server(written, repository)),
    ]
    facts = {
        "folder": str(written.folder),
        "platform": written.platform,
        "max_batch_size": served.batch,
        "is_stateful": served.is_stateful,
        "inputs": {name: list(shape) for name, shape in inputs.items()},
        "outputs": {name: list(shape) for name, shape in outputs.items()},
        "needs_plan": written.needs_plan,
        "seconds": round(seconds, 3),
        "manifest": dict(written.manifest),
    }
    return Report(lines, facts)


def _steps_to_server(written: WrittenModel, repository: str) -> Iterator[str]:
    """What is left to do until the server runs."""
    if written.needs_plan:
        yield f"run {written.script} in the container of Triton: it builds the plan"
    if written.platform == "python":
        extra = "gpu" if "plan" in written.manifest else "onnx"
        yield f"install prototrt with its extra {extra} in the Python of Triton"
    yield f"tritonserver --model-repository={Path(repository).resolve()}"


def _requests(served: ServedGraph) -> str:
    if not served.batch:
        return f"requests one by one, because {served.unbatched}"
    what = "requests"
    if served.is_stateful:
        what = "sequences, whose state the server keeps; give sequence_id, sequence_start and sequence_end"
    return f"up to {served.batch} {what}"


def state_line(after: str, before: str, shape: Shape, axes: Sequence[str | None] = ()) -> str:
    """A line about state: the output to feed back, and the input that takes it."""
    return f"state    {after} -> {blob_text(before, shape, axes)}"


def stream_lines(stream: StreamLags) -> Iterator[str]:
    """Lines about a stream in pieces: how late each output is, and what of it depends on the end."""
    for name, lag in stream.lags.items():
        late = f"comes {plural(lag.delay, 'result')} late" if lag.delay else "comes at once"
        depend = "depends" if lag.end == 1 else "depend"
        end = f"; the last {lag.end} of a sequence {depend} on its end" if lag.end else ""
        yield f"stream   {plural(stream.steps, 'step')} a call: {name} {late}, {lag.results} a call{end}"


def blob_text(name: str, shape: Shape, axes: Sequence[str | None] = ()) -> str:
    """As in ``x 2x5x256 (N, T, 256)``; without the names of the axes if none has one."""
    if not any(axes):
        return f"{name} {sizes(shape)}"
    named = ", ".join(axis or str(dim) for axis, dim in zip(axes, shape, strict=True))
    return f"{name} {sizes(shape)} ({named})"


_MEANINGS = {
    "detections": "a detector, rows of boxes",
    "clusters": "a detector, DetectNet's objects",
    "coverage": "a detector, DetectNet's grids",
    "classes": "a classifier",
    "masks": "a segmentation",
    "tensors": "tensors, which your program reads",
}


def video_report(written: WrittenFolder, seconds: float) -> Report:
    """Of a folder for Gst-nvinfer: what the net is there, what became of an old config, and what to do next.

    ``seconds`` are those of all steps.
    """
    network, folder = written.network, written.folder.name
    size = sum(file.stat().st_size for file in written.folder.iterdir())
    parser = f"next     copy {folder} to the machine with DeepStream, and type there: make -C {folder}"
    lines = [
        f"{folder}: {_MEANINGS[network.meaning]}",
        f"input    {network.image.name} {sizes(network.image.shape)}",
        *(f"output   {name}" for name in network.outputs),
        *(f"left out {layer.origin.note}" for layer in written.graph.left_out),
        *(f"config   {note}" for note in written.notes),
        f"{written.folder}: {text_of_bytes(size)}, {seconds:.1f} s",
        *([parser] if written.needs_parser else []),
        f"next     name {folder}/config_infer.txt as config-file-path of nvinfer",
    ]
    facts = {
        "folder": str(written.folder),
        "meaning": network.meaning,
        "outputs": list(network.outputs),
        "classes": network.classes,
        "config": {name: dict(keys) for name, keys in written.config.items()},
        "notes": list(written.notes),
        "seconds": round(seconds, 3),
        "manifest": dict(written.manifest),
    }
    return Report(lines, facts)
