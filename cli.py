"""The commands. Parses options, calls one function, prints, and chooses the exit code.

Everything beyond click is imported when a command runs: ``--help`` must be quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

import prototrt
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.commandline.batch.options import BatchOptions, Bytes, batch_options
from prototrt.converter.commandline.crashes import survive
from prototrt.converter.commandline.frame import (
    EXIT_CODES,
    Commands,
    Guarded,
    common_options,
    json_option,
    print_json,
    settings_of_command,
    tell,
    warn,
)
from prototrt.converter.commandline.options.building import build_options
from prototrt.converter.commandline.options.groups import gathered
from prototrt.converter.commandline.options.loading import drawing_options, model_options, net_options
from prototrt.converter.commandline.options.parameter_types import InputFile, OutputFile
from prototrt.converter.commandline.options.refusals import refuse_files_read_and_written
from prototrt.converter.commandline.options.rewriting import rewrite_options
from prototrt.converter.commandline.options.running import Running, running_options
from prototrt.converter.commandline.options.stages import (
    print_after_option,
    printing_after,
    reader_option,
    refuse_idle_reader,
    refuse_rewriting_options,
    split_stages,
    stage_options,
)
from prototrt.converter.commandline.options.verifying import verify_options
from prototrt.converter.commandline.terminal import show
from prototrt.converter.options import WAY_NAMES, BuildOptions, ConvertOptions, ExportOptions, VerifyOptions
from prototrt.converter.stages import Stage
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model
    from prototrt.converter.sessions.session import Session
    from prototrt.surgery.ir import Graph

HELP = ["-h", "--help"]


def _write_text(target: str | None, text: str) -> None:
    from prototrt.converter.files import atomic_write

    if target is None:
        show(text, end="")
    else:
        with atomic_write(target) as stream:
            stream.write(text.encode())


def _rewritten(model: Model, options: RewriteOptions) -> Graph:
    from prototrt.converter.commandline.wording import graph_in_command_line_words

    graph = graph_in_command_line_words(prototrt.rewrite(model, options=options))
    refuse_files_read_and_written(click.get_current_context(), [source.file for source in graph.sources])
    warn(graph.warnings)
    return graph


def _session(
    model: str, loading: LoadOptions, rewriting: RewriteOptions, on: str | None, running: Running
) -> Session:
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.runtime.plan_file import is_plan

    if not is_plan(model):
        running.refuse_for_net(model)
        return prototrt.Session(_rewritten(load_with_weights(model, loading), rewriting), on=on, cut=True)
    if on not in (None, "engine"):
        raise click.UsageError(f"--on {on} is for nets, but {model} is a plan")
    return running.session(model, "inputs", "target", "on", "calls", "draw")


@click.group(cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": HELP})
@common_options
def main() -> None:
    """Convert Caffe models, above all recurrent ones, to TensorRT engines."""


@main.command(
    cls=Guarded,
    epilog=EXIT_CODES,
    short_help="Build an engine, or write an ONNX model.",
    context_settings={"help_option_names": HELP},
)
@model_options
@rewrite_options
@build_options
@print_after_option
@json_option
@common_options
@gathered(
    loading=LoadOptions,
    rewriting=RewriteOptions,
    building=BuildOptions,
    exporting=ExportOptions,
    converting=ConvertOptions,
)
def convert(
    model: str,
    target: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    building: BuildOptions,
    exporting: ExportOptions,
    converting: ConvertOptions,
    print_after: tuple[str, ...],
    as_json: bool,
) -> None:
    """Build an engine from MODEL (a prototxt) and WEIGHTS (a caffemodel), or write an ONNX model.

    Writes FILE, and its manifest FILE.json: bindings, recurrent pairs, origin.
    """
    import time

    from prototrt.converter.commandline.progress import BuildProgress, terminal
    from prototrt.converter.commandline.report import conversion_facts, conversion_summary
    from prototrt.converter.conversion import Product, load_with_weights, truth_of

    if print_after and as_json:
        raise click.UsageError("--print-after prints text: leave out --json")
    began = time.perf_counter()
    product = Product(target=target, building=building, exporting=exporting, converting=converting)
    net = load_with_weights(model, loading)
    with (
        printing_after(print_after),
        BuildProgress(None if settings_of_command().quiet else terminal()) as progress,
    ):
        graph = _rewritten(net, rewriting)
        truth = truth_of(net, rewriting) if converting.verify else None
        manifest = product.write(graph, progress, truth)
    made = (net, graph, manifest, target, time.perf_counter() - began)
    if as_json:
        print_json(conversion_facts(*made))
    else:
        tell(conversion_summary(*made))


def convert_main() -> None:
    """``convert``, installed as a separate command."""
    survive(lambda: convert(prog_name="convert"))


def prototrt_main() -> None:
    """``prototrt``, as it is installed: TensorRT's builder may crash, and no other command runs it."""
    if "convert" in sys.argv[1:]:
        survive(main)
    else:
        main()


@main.command(cls=Guarded, epilog=EXIT_CODES, short_help="Cut a training net down to its deploy net.")
@net_options
@click.option("-o", "target", type=OutputFile(), help="The file to write; the default is standard output.")
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions)
def deploy(model: str, loading: LoadOptions, rewriting: RewriteOptions, target: str | None) -> None:
    """Cut the training net MODEL (a train_val.prototxt) down to its deploy net.

    Data layers become inputs, and each loss becomes the prediction it consumes. Caffe reads
    the result, with the same weights.
    """
    from prototrt.caffe_proto.net.deploy_text import deploy_text, transformations

    net = prototrt.load(model, options=loading)
    text = deploy_text(net, rewriting.shapes or {})
    warn([*net.warnings, *transformations(net)])
    _write_text(target, text)


@main.command(cls=Guarded, epilog=EXIT_CODES, short_help="Draw a net, or the graph made from it.")
@drawing_options
@rewrite_options
@click.option("-o", "target", type=OutputFile(), help="The file to write; the default is standard output.")
@stage_options
@click.option(
    "--verification", type=InputFile(), metavar="FILE.json", help="The output of `verify --json`, for a page."
)
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions, stage=Stage)
def dot(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    target: str | None,
    stage: Stage,
    verification: str | None,
) -> None:
    """Draw MODEL in Graphviz's language, or as .svg, .png, .pdf, or as a page: .html.

    The page shows the net beside the graph, with shapes, costs and warnings, in one file.
    Nodes made by surgery are dashed, the body of a Scan has a frame, and state that is
    fed back is a red, dashed arrow.
    """
    from prototrt.converter.commandline.wording import command_line_words
    from prototrt.converter.pictures import dot_text, is_page, write_picture

    if verification is not None and not is_page(target):
        raise click.UsageError("--verification is for pages: also give -o FILE.html")
    refuse_idle_reader(stage)
    net = prototrt.load(model, options=loading)
    if target is None:
        text, warnings = dot_text(net, rewriting, stage)
        show(text, end="")
    else:
        warnings = write_picture(target, net, rewriting, stage, verification, command_line_words)
    warn(warnings)


@main.command(cls=Guarded, epilog=EXIT_CODES, short_help="Show layers, shapes, parameters and multiply-adds.")
@drawing_options
@rewrite_options
@click.option(
    "--stage",
    "names",
    multiple=True,
    metavar="rewritten|lowered|NAME",
    help="Print a graph instead: rewritten, as primitives; or lowered, as given to a backend."
    " Any other name is a NetState stage, as with --net-stage.",
)
@reader_option
@print_after_option
@json_option
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions)
def inspect(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    names: tuple[str, ...],
    reader: str,
    print_after: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the layers of MODEL: shapes, parameters, multiply-adds, recurrent pairs.

    Multiply-adds are counted for one call; element-wise work is not counted.
    "per step" are those of one of the T steps of a recurrent layer.
    """
    from prototrt.converter.commandline.report import print_inspection
    from prototrt.surgery.views.inspection import inspect

    stage, net_stages = split_stages(names, reader)
    net = prototrt.load(model, options=replace(loading, stages=(*loading.stages, *net_stages)))
    if stage.name != "parsed" or print_after:
        _print_graphs(net, rewriting, stage, print_after, as_json)
        return
    refuse_rewriting_options()
    inspection = inspect(net, options=rewriting)
    if as_json:
        print_json(inspection.as_dict())
    else:
        print_inspection(inspection)
        warn(inspection.warnings)


def _print_graphs(
    net: Model, options: RewriteOptions, stage: Stage, print_after: Sequence[str], as_json: bool
) -> None:
    """The graph of the stage as text, and the graphs after the passes that were named."""
    from prototrt.converter.commandline.wording import graph_in_command_line_words

    if as_json:
        raise click.UsageError("--json is for the table of layers: leave out --stage and --print-after")
    with printing_after(print_after):
        rewritten = prototrt.rewrite(net, options=replace(options, require_weights=False))
        shown = rewritten if stage.name == "rewritten" else stage.lowered(rewritten)
    if stage.name != "parsed":
        show(shown.text(), end="")
    warn(graph_in_command_line_words(rewritten).warnings)


@main.command(cls=Guarded, epilog=EXIT_CODES, short_help="Run a net on the CPU, or an engine on a GPU.")
@model_options
@rewrite_options
@click.option(
    "--inputs", type=InputFile(), required=True, metavar="FILE.npz", help="The inputs, by blob name."
)
@click.option("-o", "target", type=OutputFile(), required=True, metavar="FILE.npz", help="Outputs go here.")
@click.option(
    "--on",
    type=click.Choice(WAY_NAMES),
    help="reference (unless MODEL is a plan): our primitives; network: the very network that TensorRT is"
    " given, both in NumPy; onnx: the ONNX model, by onnxruntime; onnx-lstm: the same with --onnx-lstm;"
    " engine: TensorRT, on a GPU.",
)
@click.option(
    "--calls", type=click.IntRange(min=1), help="Number of calls; state carries over from call to call."
)
@click.option(
    "--draw",
    type=OutputFile(),
    metavar="FILE.png",
    help="Also draw the boxes of a detector (SSD, YOLO) on its input images. Needs Pillow.",
)
@running_options
@json_option
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions, running=Running)
def run(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    inputs: str,
    target: str,
    on: str | None,
    calls: int | None,
    draw: str | None,
    running: Running,
    as_json: bool,
) -> None:
    """Run MODEL with WEIGHTS on the CPU; or an engine, if MODEL is a plan, on a GPU.

    State starts at zero and is carried from call to call. An array NAME of the inputs is
    fed in every call, NAME/0, NAME/1, ... in that call alone. The outputs of several calls
    are written as NAME/0, NAME/1, ...
    """
    from prototrt.converter.commandline.boxes import BoxPicture
    from prototrt.converter.commandline.report import results_facts, results_summary
    from prototrt.converter.sessions.feeds import read_feeds, refuse_misfits, unread_arrays, write_results

    with _session(model, loading, rewriting, on, running) as session:
        picture = None if draw is None else BoxPicture(draw, session.signature)
        names = [value.name for value in session.signature.inputs]
        feeds = read_feeds(inputs, names, calls)
        warn(unread_arrays(inputs, feeds, names))
        refuse_misfits(inputs, feeds, session.signature)
        results = [session.run(feed) for feed in feeds]
    write_results(target, results)
    if picture is not None:
        picture.write(feeds, results)
    if as_json:
        print_json(results_facts(target, results))
    else:
        tell(results_summary(target, results))


@main.command(cls=Guarded, epilog=EXIT_CODES, short_help="Compute a net in several ways, and compare them.")
@model_options
@rewrite_options
@verify_options
@json_option
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions, verifying=VerifyOptions)
def verify(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    verifying: VerifyOptions,
    as_json: bool,
) -> None:
    """Compute MODEL with WEIGHTS in several ways, and compare with our primitives.

    If a tolerance is exceeded, the first offending layer is named, and the exit code is 5.
    """
    from prototrt.converter.commandline.report import print_verification
    from prototrt.converter.conversion import load_with_weights, truth_of
    from prototrt.converter.verification.verify import verify_files

    net = load_with_weights(model, loading)
    verification = verify_files(_rewritten(net, rewriting), verifying, truth_of(net, rewriting))
    if as_json:
        print_json(verification.as_dict())
    else:
        print_verification(verification)
        warn(verification.warnings)
    verification.refuse()


@main.command(cls=Guarded, epilog=EXIT_CODES, short_help="Time an engine on a GPU, or a net on the CPU.")
@model_options
@rewrite_options
@click.option(
    "--calls", type=click.IntRange(min=1), default=100, show_default=True, help="How many calls to time."
)
@click.option("--profile", is_flag=True, help="Also the time of each layer of TensorRT.")
@running_options
@json_option
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions, running=Running)
def bench(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    calls: int,
    profile: bool,
    running: Running,
    as_json: bool,
) -> None:
    """Time the calls of MODEL: of a plan, or of an engine that is built from MODEL and WEIGHTS.

    Without a GPU, MODEL with WEIGHTS is timed on the CPU, on all ways of `run --on` that work here. Inputs
    are invented. Ten calls come first that do not count. A way ends after ten seconds.
    "queued" is the time after which Python goes on while the GPU works.
    """
    from prototrt.converter.benchmark import bench_engine, bench_graph
    from prototrt.converter.commandline.report import print_benchmark
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.runtime.plan_file import is_plan

    if is_plan(model):
        with running.session(model, "calls", "profile") as session:
            found = bench_engine(session, calls, profile=profile)
    else:
        running.refuse_for_net(model)
        found = bench_graph(_rewritten(load_with_weights(model, loading), rewriting), calls, profile=profile)
    warn(found.notes)
    if as_json:
        print_json(found.as_dict())
    else:
        print_benchmark(found)


@main.command(cls=Guarded, epilog=EXIT_CODES)
@click.option("--markdown", is_flag=True, help="As in docs/layers.md.")
@json_option
@common_options
def layers(markdown: bool, as_json: bool) -> None:
    """List the supported layer types and what each becomes."""
    from prototrt.converter.commandline.report import print_support
    from prototrt.surgery.views.support import markdown_table, supported_layers

    if as_json:
        print_json([row.as_dict() for row in supported_layers()])
    elif markdown:
        show(markdown_table(supported_layers()))
    else:
        print_support(supported_layers())


@main.command(cls=Guarded, epilog=EXIT_CODES)
@batch_options
@json_option
@common_options
@gathered(options=BatchOptions)
def batch(options: BatchOptions, as_json: bool) -> None:
    """Convert all models listed in MODELS.yaml.

    Each model has its own process: a crash, a hang or a lack of memory ends that model only.
    The exit code is that of the worst model.
    """
    from prototrt.converter.batch.reports import json_report
    from prototrt.converter.commandline.batch.command import run_batch, survey_list, warnings_of
    from prototrt.converter.commandline.survey import print_survey

    if options.dry_run:
        found = survey_list(options)
        if as_json:
            print_json(found.as_dict())
        else:
            print_survey(found)
        click.get_current_context().exit(0 if found.is_whole else 3)
    result = run_batch(options, settings_of_command().quiet)
    warn(warnings_of(options, result))
    if as_json:
        show(json_report(result), end="")
    else:
        tell(result.summary)
    click.get_current_context().exit(result.exit_code)


@main.command(
    cls=Guarded, epilog=EXIT_CODES, short_help="Report which nets convert, and what stops the others."
)
@click.argument("nets", metavar="NET_OR_FOLDER...", nargs=-1, required=True, type=InputFile())
@click.option("-o", "target", type=OutputFile(), help="Also write the report: .html or .json.")
@json_option
@common_options
def survey(nets: tuple[str, ...], target: str | None, as_json: bool) -> None:
    """Try all nets, and those below folders, without building anything.

    Weights are not needed. Where a net does not state the shape of an input, a usual one is tried.
    """
    from prototrt.converter.commandline.survey import ask_about, print_survey, written

    found = ask_about(nets, settings_of_command().quiet)
    if target is not None:
        _write_text(target, written(found, target))
    if as_json:
        print_json(found.as_dict())
    elif not settings_of_command().quiet:
        print_survey(found)


@main.group()
def cache() -> None:
    """The conversions that `batch --cache` keeps."""


@cache.command(cls=Guarded, epilog=EXIT_CODES)
@click.argument("folder")
@click.option(
    "--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Entries not used for this long."
)
@click.option("--max-size", type=Bytes(), help="The least recently used entries above this size, as in 10GB.")
@json_option
@common_options
def prune(folder: str, older_than: float | None, max_size: int | None, as_json: bool) -> None:
    """Remove conversions from FOLDER: all of them, or what the options say."""
    from prototrt.converter.batch.prune import prune

    pruned = prune(folder, older_than, max_size)
    if as_json:
        print_json(pruned.as_dict())
    else:
        tell(pruned.summary)


@main.command(
    cls=Guarded, epilog=EXIT_CODES, short_help="Report what is installed here, and what is missing."
)
@json_option
@common_options
def doctor(as_json: bool) -> None:
    """Report what is installed here, what it can build and run, and what to install."""
    from prototrt.converter.commandline.report import print_diagnosis
    from prototrt.converter.doctor import diagnose

    diagnosis = diagnose()
    if as_json:
        print_json(diagnosis.as_dict())
    else:
        print_diagnosis(diagnosis)
