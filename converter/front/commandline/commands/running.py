"""Commands that compute: a net on the CPU, or an engine on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.options.common import refuse_options_beside, verbosity
from prototrt.converter.front.commandline.options.loading import net_arguments
from prototrt.converter.front.commandline.options.running import BenchOptions, CallOptions, RunningOptions
from prototrt.converter.front.commandline.printing import print_result, report_graph, tell_summary, warn
from prototrt.converter.options import ON_DEVICES, DataOptions, VerifyOptions, Way
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model
    from prototrt.converter.running.sessions.session import Session
    from prototrt.surgery.ir import Graph


@command(net_arguments)
def run(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    data: DataOptions,
    asked: CallOptions,
    running: RunningOptions,
    as_json: bool,
) -> None:
    """Run MODEL with WEIGHTS on the CPU. MODEL may also be an ONNX model that `convert` wrote, or an engine, on a GPU.

    State starts at zero and is carried from call to call; each file of a folder starts anew. An array NAME of an
    npz file is fed in every call, NAME/0, NAME/1, ... in that call alone. The outputs of several calls are written
    as NAME/0, NAME/1, ...
    """
    from prototrt.caffe_proto.net.data_layers import AS_IN_TRAINING
    from prototrt.converter.files.signatures.feeds import write_results
    from prototrt.converter.front.commandline.boxes import BoxPicture, refuse_without_pillow
    from prototrt.converter.front.commandline.summaries import report_of_calls
    from prototrt.converter.running.data.calls import some_calls
    from prototrt.converter.running.data.images import image_input
    from prototrt.converter.running.data.labels import read_labels
    from prototrt.converter.running.data.pixels import doubt_of_pixels
    from prototrt.converter.showing.glance.manifests import warnings_of

    data.refuse_no_source()
    labels = () if asked.labels is None else read_labels(asked.labels)
    if labels and asked.draw is None:
        raise click.UsageError("--labels names the boxes of --draw\n  fix: also give --draw boxes.png")
    if asked.draw is not None:
        refuse_without_pillow()
    rewriting = replace(rewriting, for_operators=asked.on == "onnx-lstm")
    nets: list[Model] = []
    with session_of(model, loading, rewriting, asked, running, nets.append) as session:
        picture = None if asked.draw is None else BoxPicture(asked.draw, session.signature, labels)
        inputs = some_calls(data, session.signature, asked.calls)
        warn(inputs.warnings)
        if inputs.pixels and not (data.mean or data.scale != DataOptions.scale or rewriting.preprocess):
            doubts = [doubt_of_pixels(net, image_input(session.signature).name) for net in nets]
            notes = () if nets else [text for text in warnings_of(model) if AS_IN_TRAINING in text]
            warn((*filter(None, doubts), *notes))
        results, drawn = [], []
        for call in inputs.calls():
            if call.starts_anew:
                session.reset()
            results.append(session.run(call.feeds))
            if picture is not None:
                drawn.append(call)
    write_results(asked.file, results)
    boxes = "" if picture is None else picture.write(drawn, results)
    report = report_of_calls(asked.file, results, session.on, inputs.pixels, boxes)
    print_result(report, as_json, tell_summary)


@command(net_arguments)
def bench(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    measuring: BenchOptions,
    running: RunningOptions,
    as_json: bool,
) -> None:
    """Time the calls of MODEL: of a plan, or of an engine that is built from MODEL and WEIGHTS.

    Where no engine runs, MODEL with WEIGHTS is timed in the other ways of `run --on` that work here, on the CPU and
    on the GPU if there is one. Inputs are random. Each way makes ten calls that do not count, and ends after ten
    seconds. "queued" is the time until Python continues while the GPU works.
    """
    from prototrt.converter.checking.machines.benchmark import bench
    from prototrt.converter.front.commandline.report import print_benchmark
    from prototrt.converter.running.runtime.plan_file import is_plan

    if is_plan(model):
        with running.session(model, *(each.name for each in fields(measuring))) as session:
            result = bench(session, measuring.calls, profile=measuring.layer_times)
    else:
        running.refuse_for_net(model)
        graph = rewritten(model, loading, rewriting)
        result = bench(graph, measuring.calls, profile=measuring.layer_times)
    warn(result.notes)
    print_result(result, as_json, print_benchmark)


@command(net_arguments)
def verify(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    verifying: VerifyOptions,
    as_json: bool,
) -> None:
    """Compute MODEL with WEIGHTS in several ways, and compare with our primitives.

    If a tolerance is exceeded, the first offending layer is named, and the exit code is 5.
    With int8 or fp8, two tables show what that costs: each output, and each layer quantized alone.
    """
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.front.commandline.progress import bar_of_parts
    from prototrt.converter.front.commandline.report import print_verification
    from prototrt.converter.front.steps import verify

    net = load_with_weights(model, loading, rewriting)
    with bar_of_parts(verbosity().quiet) as progress:
        options = replace(verifying, rewriting=rewriting, progress=progress)
        verification = verify(net, options, report_graph)
    print_result(verification, as_json, print_verification)
    verification.refuse()


def rewritten(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    listener: Callable[[Model], object] = lambda net: net,
) -> Graph:
    """The graph of a net with weights, of which ``listener`` hears, to be computed here; its warnings are printed."""
    from prototrt.converter.checking.machines.memory import refuse_large_values
    from prototrt.converter.conversion import load_with_weights
    from prototrt.surgery.pipeline import rewrite

    net = load_with_weights(model, loading, rewriting)
    listener(net)
    graph = report_graph(rewrite(net, options=rewriting))
    refuse_large_values(graph, rewriting)
    return graph


def session_of(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    asked: CallOptions,
    running: RunningOptions,
    listener: Callable[[Model], object],
) -> Session:
    """A session on a net with its weights, of which ``listener`` hears, on a plan, or on the file of an ONNX model.

    Raises ``UsageError`` for options that are for one of the others.
    """
    from prototrt.converter.backends.torch.evaluator import refuse_without_torch
    from prototrt.converter.running.runtime.plan_file import is_plan
    from prototrt.converter.running.sessions.session import Session, is_onnx_file

    on, data = asked.on, [field.name for field in fields(DataOptions)]
    of_a_call = (*data, "file", "on", "calls", "draw", "labels")
    if is_onnx_file(model):
        running.refuse_for_onnx(model)
        _refuse_other_ways(on, "onnx", model, "an ONNX model")
        refuse_options_beside(model, "an ONNX model", "as_json", "device", "trust", *of_a_call)
        return Session(model, cut=True, device=asked.device, trust=running.trust)
    if not is_plan(model):
        running.refuse_for_net(model)
        if asked.device is not None and on not in ON_DEVICES:
            raise click.UsageError(
                f"--device is for --on {', '.join(ON_DEVICES)}\n  fix: use --on {ON_DEVICES[0]}"
            )
        if on == "torch":
            refuse_without_torch()
        graph = rewritten(model, loading, rewriting, listener)
        if on is None and rewriting.precision == "fp32" and (session := _in_onnxruntime(graph)):
            return session
        return Session(graph, on=on, cut=True, device=asked.device)
    _refuse_other_ways(on, "engine", model, "an engine")
    return running.session(model, *of_a_call)


def _in_onnxruntime(graph: Graph) -> Session | None:
    """A session in onnxruntime, where that is installed and computes the graph."""
    from prototrt.converter.running.sessions.session import Session

    with suppress(ConversionError):
        return Session(graph, on="onnx", cut=True)
    return None


def _refuse_other_ways(on: Way | None, own: Way, file: str, kind: str) -> None:
    if on not in (None, own):
        raise click.UsageError(
            f"--on {on} is for nets, but {visible_line(file)} is {kind}\n  fix: leave it out"
        )
