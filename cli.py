"""The commands. Parses options, calls one function, prints, and chooses the exit code.

Everything beyond click is imported when a command runs: ``--help`` must be quick.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import click

import prototrt
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.commandline.batch.options import BatchOptions, Bytes, batch_options
from prototrt.converter.commandline.crashes import survive
from prototrt.converter.commandline.frame import Commands
from prototrt.converter.commandline.imagemagick import message_for_images
from prototrt.converter.commandline.options.building import build_options
from prototrt.converter.commandline.options.calibrating import KnownScales, ScalesFiles, calibrate_options
from prototrt.converter.commandline.options.common import (
    common_options,
    json_option,
    text_target_option,
    verbosity,
)
from prototrt.converter.commandline.options.groups import gathered
from prototrt.converter.commandline.options.loading import drawing_options, model_options, net_options
from prototrt.converter.commandline.options.parameter_types import InputFile, OutputFile
from prototrt.converter.commandline.options.rewriting import preprocess_option, rewrite_options
from prototrt.converter.commandline.options.running import (
    CallOptions,
    RunningOptions,
    call_options,
    running_options,
)
from prototrt.converter.commandline.options.serving import triton_options
from prototrt.converter.commandline.options.stages import (
    are_stated_alone,
    inspection_stage_options,
    print_after_option,
    printing_after,
    refuse_idle_reader,
    refuse_rewriting_options,
    split_stages,
    stage_options,
)
from prototrt.converter.commandline.options.verifying import verify_options
from prototrt.converter.commandline.printing import (
    print_json,
    print_result,
    tell,
    tell_summary,
    warn,
    write_text,
)
from prototrt.converter.commandline.steps import print_graphs, rewritten, session_of
from prototrt.converter.commandline.terminal import show
from prototrt.converter.options import (
    MOST_CALLS,
    NO_SUFFIX,
    BuildOptions,
    CalibrateOptions,
    ConvertOptions,
    DataOptions,
    ExportOptions,
    TritonOptions,
    VerifyOptions,
)
from prototrt.converter.stages import Stage
from prototrt.surgery.options import RewriteOptions

HELP = ["-h", "--help"]


@click.group(cls=Commands, context_settings={"help_option_names": HELP})
@common_options
def main() -> None:
    """Convert Caffe models, above all recurrent ones, to TensorRT engines."""


@main.command(
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
    file: str,
    header: str | None,
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
    from prototrt.converter.commandline.summaries import Conversion
    from prototrt.converter.conversion import Product, load_with_weights, truth_of

    if print_after and as_json:
        raise click.UsageError("--print-after prints text: leave out --json")
    began = time.perf_counter()
    product = Product(
        file=file,
        header=header,
        precision=rewriting.precision,
        building=building,
        exporting=exporting,
        converting=converting,
    )
    net = load_with_weights(model, loading)
    with (
        printing_after(print_after),
        BuildProgress(None if verbosity().quiet else terminal()) as progress,
    ):
        graph = rewritten(net, rewriting)
        truth = truth_of(net, rewriting) if converting.verify else None
        manifest = product.write(graph, progress, truth)
    seconds = time.perf_counter() - began
    conversion = Conversion(net, graph, manifest, file, seconds, building.backend, header, product.target)
    print_result(conversion, as_json, tell_summary)


def convert_main() -> None:
    """``convert``, installed as a separate command, which hides ImageMagick's command of this name."""
    if message := message_for_images(sys.argv[1:]):
        show(message, err=True)
        sys.exit(2)
    survive(lambda: convert(prog_name="convert"))


def prototrt_main() -> None:
    """``prototrt``, as it is installed."""
    survive(main)


@main.command(short_help="Cut a training net down to its deploy net.")
@net_options
@text_target_option(".prototxt", ".pbtxt", ".txt", NO_SUFFIX)
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions)
def deploy(model: str, loading: LoadOptions, rewriting: RewriteOptions, target: str | None) -> None:
    """Cut the training net MODEL (a train_val.prototxt) down to its deploy net.

    Data layers become inputs, and each loss becomes the prediction it consumes. Caffe reads
    the result, with the same weights.
    """
    from prototrt.caffe_proto.net.deploy_text import deploy_text, transformations
    from prototrt.surgery.expansion.known_inputs import given_shapes

    net = prototrt.load(model, options=loading)
    text = deploy_text(net, given_shapes(rewriting))
    warn([*net.warnings, *transformations(net)])
    write_text(target, text)


@main.command(short_help="Draw a net, or the graph made from it.")
@drawing_options
@rewrite_options
@text_target_option()
@stage_options
@click.option(
    "--verification", type=InputFile(), metavar="FILE.json", help="The output of `verify --json`, for a page."
)
@click.option("--open", "is_opened", is_flag=True, help="Show the file in a browser.")
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions, stage=Stage)
def dot(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    target: str | None,
    stage: Stage,
    verification: str | None,
    is_opened: bool,
) -> None:
    """Draw MODEL in Graphviz's language, or as .svg, .png, .pdf, or as a page: .html.

    The page shows the net beside the graph, with shapes, costs and warnings, in one file.
    Nodes made by surgery are dashed, the body of a Scan has a frame, and state that is
    fed back is a red, dashed arrow.
    """
    from prototrt.converter.commandline.browser import open_in_browser
    from prototrt.converter.commandline.wording import command_line_words
    from prototrt.converter.pictures import TEXT, dot_text, is_page, refuse_other_formats, write_picture

    if is_opened and (target is None or target.lower().endswith(TEXT)):
        raise click.UsageError("--open is for pages and images: also give -o FILE.html")
    if target is not None:
        refuse_other_formats(target)
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
    if is_opened and target is not None:
        open_in_browser(target)


@main.command(short_help="Show layers, shapes, parameters and multiply-adds.")
@drawing_options
@rewrite_options
@inspection_stage_options
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

    Any other file is shown, too: weights alone, an engine, an ONNX model, a Caffe2 net, arrays, scales, a mean
    file, a manifest. The last line says what to do with it.
    """
    from prototrt.converter.commandline.glance import Glance, print_glance
    from prototrt.converter.commandline.report import print_inspection
    from prototrt.converter.glance.look import look_at
    from prototrt.surgery.views.inspection import inspect

    if are_stated_alone("model", "as_json"):
        facts = look_at(model)
        if facts is not None:
            print_result(Glance(facts), as_json, print_glance)
            return
    stage, net_stages = split_stages(names, reader)
    net = prototrt.load(model, options=replace(loading, stages=(*loading.stages, *net_stages)))
    if stage.name != "parsed" or print_after:
        print_graphs(net, rewriting, stage, print_after, as_json)
        return
    refuse_rewriting_options()
    print_result(inspect(net, options=rewriting), as_json, print_inspection)


@main.command(short_help="Run a net on the CPU, or an engine on a GPU.")
@model_options
@rewrite_options
@call_options
@running_options
@json_option
@common_options
@gathered(
    loading=LoadOptions, rewriting=RewriteOptions, data=DataOptions, asked=CallOptions, running=RunningOptions
)
def run(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    data: DataOptions,
    asked: CallOptions,
    running: RunningOptions,
    as_json: bool,
) -> None:
    """Run MODEL with WEIGHTS on the CPU; or an engine, if MODEL is a plan, on a GPU.

    State starts at zero and is carried from call to call; each file of a folder starts anew. An array NAME of an
    npz file is fed in every call, NAME/0, NAME/1, ... in that call alone. The outputs of several calls are written
    as NAME/0, NAME/1, ...
    """
    from prototrt.converter.commandline.boxes import BoxPicture
    from prototrt.converter.commandline.summaries import Calls
    from prototrt.converter.data.given import some_calls
    from prototrt.converter.sessions.feeds import write_results

    data.refuse_no_source()
    with session_of(model, loading, asked.watching(rewriting), asked.on, running) as session:
        picture = None if asked.draw is None else BoxPicture(asked.draw, session.signature)
        given = some_calls(data, session.signature, asked.calls)
        warn(given.warnings)
        results, drawn = [], []
        for call in given.calls():
            if call.starts_anew:
                session.reset()
            results.append(session.run(call.feeds))
            if picture is not None:
                drawn.append(call.feeds)
    write_results(asked.target, results)
    if picture is not None:
        picture.write(drawn, results)
    print_result(Calls(asked.target, results), as_json, tell_summary)


@main.command(short_help="Measure the scales that int8 needs, on data.")
@model_options
@calibrate_options
@preprocess_option
@json_option
@common_options
@gathered(
    loading=LoadOptions,
    rewriting=RewriteOptions,
    calibrating=CalibrateOptions,
    known=KnownScales,
    written=ScalesFiles,
)
def calibrate(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    calibrating: CalibrateOptions,
    known: KnownScales,
    written: ScalesFiles,
    as_json: bool,
) -> None:
    """Run MODEL with WEIGHTS on data, and write the scale of each value that int8 or fp8 quantizes.

    The data should be like those that the net will meet: some hundred images, say. State is carried from call to
    call as for `run`; each file starts anew. Weights need no data: each of their channels has its own scale.
    """
    from prototrt.converter.commandline.calibrating import scales_of

    known.refuse_beside(calibrating)
    found = scales_of(model, loading, rewriting, calibrating, known, written)
    warn(found.warnings)
    for target, text in found.texts.items():
        write_text(target, text)
    print_result(found, as_json, tell_summary)


@main.command(short_help="Compute a net in several ways, and compare them.")
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
    With int8 or fp8, two tables show what that costs: each output, and each layer quantized alone.
    """
    from prototrt.converter.commandline.progress import bar_when_known
    from prototrt.converter.commandline.report import print_verification
    from prototrt.converter.conversion import load_with_weights, verify_model
    from prototrt.converter.memory import refuse_large_values

    net = load_with_weights(model, loading)
    graph = rewritten(net, rewriting)
    refuse_large_values(graph, rewriting)
    with bar_when_known(verbosity().quiet) as started:
        verification = verify_model(net, graph, rewriting, verifying, started)
    print_result(verification, as_json, print_verification)
    verification.refuse()


@main.command(short_help="Time an engine on a GPU, or a net on the CPU.")
@model_options
@rewrite_options
@click.option(
    "--calls",
    type=click.IntRange(min=1, max=MOST_CALLS),
    default=100,
    show_default=True,
    help="How many calls to time.",
)
@click.option("--profile", is_flag=True, help="Also print the time of each TensorRT layer.")
@running_options
@json_option
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions, running=RunningOptions)
def bench(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    calls: int,
    profile: bool,
    running: RunningOptions,
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
        found = bench_graph(rewritten(load_with_weights(model, loading), rewriting), calls, profile=profile)
    warn(found.notes)
    print_result(found, as_json, print_benchmark)


@main.command()
@click.option("--markdown", is_flag=True, help="As in docs/layers.md.")
@json_option
@common_options
def layers(markdown: bool, as_json: bool) -> None:
    """List the supported layer types and what each becomes."""
    from prototrt.converter.commandline.report import print_support
    from prototrt.surgery.views.support import markdown_table, supported_layers

    if as_json:
        print_json({"layers": [row.as_dict() for row in supported_layers()]})
    elif markdown:
        show(markdown_table(supported_layers()))
    else:
        print_support(supported_layers())


@main.command()
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
    from prototrt.converter.commandline.batch.command import (
        run_batch,
        survey_list,
        warnings_of,
        warnings_of_left_out,
    )
    from prototrt.converter.commandline.survey import print_survey

    if options.dry_run:
        found = survey_list(options)
        print_result(found, as_json, print_survey)
        click.get_current_context().exit(0 if found.is_whole else 3)
    result = run_batch(options, verbosity().quiet)
    warn(warnings_of(options, result), insist=warnings_of_left_out(result))
    if as_json:
        show(json_report(result), end="")
    else:
        tell(result.summary)
    click.get_current_context().exit(result.exit_code)


@main.command(short_help="Report which nets convert, and what stops the others.")
@click.argument("nets", metavar="NET_OR_FOLDER...", nargs=-1, required=True, type=InputFile())
@click.option(
    "-o", "target", type=OutputFile(".html", ".json"), help="Also write the report: .html or .json."
)
@json_option
@common_options
def survey(nets: tuple[str, ...], target: str | None, as_json: bool) -> None:
    """Try all nets, and those below folders, without building anything.

    Weights are not needed. Where a net does not state the shape of an input, a usual one is tried.
    """
    from prototrt.converter.commandline.survey import ask_about, print_survey, written

    found = ask_about(nets, verbosity().quiet)
    if target is not None:
        write_text(target, written(found, target))
    print_result(found, as_json, print_survey)


@main.group()
def cache() -> None:
    """The conversions that `batch --cache` keeps."""


@cache.command()
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

    print_result(prune(folder, older_than, max_size), as_json, tell_summary)


@main.command(short_help="Write a model repository for Triton.")
@model_options
@rewrite_options
@triton_options
@json_option
@common_options
@gathered(loading=LoadOptions, rewriting=RewriteOptions, asked=TritonOptions, building=BuildOptions)
def triton(
    model: str,
    repository: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    asked: TritonOptions,
    building: BuildOptions,
    as_json: bool,
) -> None:
    """Write MODEL with WEIGHTS into a model repository of Triton Inference Server.

    The batch becomes the first axis of all inputs and outputs. For a recurrent net the server keeps
    the state of each sequence and gives cont: clients send the other inputs.
    """
    from prototrt.converter.commandline.serving import write_model

    print_result(write_model(model, repository, loading, rewriting, asked, building), as_json, tell_summary)


@main.command(short_help="Report what is installed here, and what is missing.")
@json_option
@common_options
def doctor(as_json: bool) -> None:
    """Report what is installed here, what it can build and run, and what to install."""
    from prototrt.converter.commandline.report import print_diagnosis
    from prototrt.converter.doctor import diagnose

    print_result(diagnose(), as_json, print_diagnosis)
