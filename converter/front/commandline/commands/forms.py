"""Commands that write a net in another form: a deploy net, a net of today, a model repository, a rule for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prototrt.caffe_proto.common.shell_words import joined
from prototrt.caffe_proto.common.wording import no_effect
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.options.common import text_target_option
from prototrt.converter.front.commandline.options.groups import field_option
from prototrt.converter.front.commandline.options.loading import (
    OF_NETS,
    OF_RULES,
    OF_UPGRADES,
    net_argument,
    net_arguments,
    weights_argument,
)
from prototrt.converter.front.commandline.options.parameter_types import OutputFile, OutputFolder
from prototrt.converter.front.commandline.printing import (
    print_result,
    report_graph,
    tell,
    tell_summary,
    tell_written,
    warn,
    write_text,
)
from prototrt.converter.options import (
    NO_SUFFIX,
    UPGRADE_STAGES,
    BuildOptions,
    DeepStreamOptions,
    TritonOptions,
    UpgradeStage,
)
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.converter.front.steps import WrittenRule


@command(net_argument, text_target_option(".prototxt", ".pbtxt", ".txt", NO_SUFFIX), only=OF_NETS)
def deploy(model: str, loading: LoadOptions, rewriting: RewriteOptions, file: str | None) -> None:
    """Cut the training net MODEL (a train_val.prototxt) down to its deploy net.

    Data layers become inputs, and each loss becomes the prediction it consumes. Caffe reads
    the result, with the same weights.
    """
    from prototrt.caffe_proto import load
    from prototrt.converter.files.writing.texts import prototxt
    from prototrt.converter.front import steps
    from prototrt.surgery.building.input_sizes import shapes_of_options

    net = steps.deploy(load(model, options=loading), shapes_of_options(rewriting))
    idle = rewriting.chosen_options("dynamic")
    warn([*net.warnings, *([no_effect(idle, "a prototxt states one size for each axis")] if idle else [])])
    write_text(file, net.text, prototxt)
    if file is not None:
        tell_written(file)
        step = ["prototrt", "convert", file, "WEIGHTS.caffemodel", "-o", f"{Path(file).stem}.plan"]
        tell(f"next     {joined(step)}")


@command(
    net_arguments,
    click.option(
        "-o",
        "weights_file",  # as Python calls the second file: messages about either one say -o
        multiple=True,
        type=OutputFile(".prototxt", ".pbtxt", ".txt", ".caffemodel"),
        help="The prototxt to write, and the caffemodel, by default beside it. Without any, the prototxt is printed.",
    ),
    click.option(
        "--stage",
        type=click.Choice(UPGRADE_STAGES),
        default="parsed",
        show_default=True,
        help="rewritten: write recurrent layers out in plain ones, step by step, with states as inputs and outputs.",
    ),
    only=OF_UPGRADES,
)
def upgrade(
    model: str,
    weights_file: tuple[str, ...],
    stage: UpgradeStage,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    as_json: bool,
) -> None:
    """Write MODEL, and WEIGHTS of any form, as a prototxt and a caffemodel of today.

    Old forms, HDF5 and npz weights, old shapes of blobs and spellings of forks are upgraded, and training nets
    are reduced to their deploy nets. Names and comments stay.
    """
    from prototrt.caffe_proto import load
    from prototrt.converter.backends.caffe.upgrading import upgrade
    from prototrt.converter.files.writing.texts import prototxt
    from prototrt.surgery.building.input_sizes import shapes_of_options

    file, weights = _net_and_weights(weights_file)
    if file is None and (as_json or loading.weights is not None):
        raise click.UsageError("the prototxt is printed without -o: also give -o FILE.prototxt")
    net = load(model, options=loading)
    written = upgrade(net, file, weights, stage, rewriting, shapes_of_options(rewriting))
    warn(written.warnings)
    if file is None:
        write_text(None, written.text, prototxt)
    else:
        print_result(written, as_json, tell_summary)


def _net_and_weights(targets: tuple[str, ...]) -> tuple[str | None, str | None]:
    """The files of ``-o``: the prototxt, and the caffemodel."""
    weights = [file for file in targets if file.lower().endswith(".caffemodel")]
    nets = [file for file in targets if file not in weights]
    if len(nets) > 1 or len(weights) > 1:
        raise click.UsageError("-o names two files of one kind: give one prototxt, and one caffemodel")
    if weights and not nets:
        raise click.UsageError("-o names a caffemodel alone: also give -o FILE.prototxt")
    return next(iter(nets), None), next(iter(weights), None)


@command(
    net_argument,
    click.argument("layer"),
    weights_argument,
    click.option("-o", "file", type=OutputFile(".py"), required=True, help="The file to write."),
    only=OF_RULES,
    name="new-rule",
)
def new_rule(
    model: str, layer: str, loading: LoadOptions, rewriting: RewriteOptions, file: str, as_json: bool
) -> None:
    """Begin a rule for LAYER of MODEL in a new file, with its fields, bottoms and blobs.

    Beside it is a test that compares the rule with recorded arrays.
    """
    from prototrt.caffe_proto import load
    from prototrt.converter.front import steps

    written = steps.new_rule(load(model, options=loading), layer, file, rewriting)
    print_result(written, as_json, lambda written: tell_rule(written, model))


def tell_rule(written: WrittenRule, model: str) -> None:
    """Say what was written, how the test is run, and how a command takes the rule."""
    from prototrt.converter.front.commandline.wording import command_line_words

    for file in (written.file, written.test):
        tell_written(file)
    tell(f"test     {joined(['python', '-m', 'pytest', written.test])}")
    step = joined(["prototrt", "convert", model, "WEIGHTS.caffemodel"])
    option = command_line_words(written.rule.usage(written.file))
    tell(f"next     {step} {option} {joined(['-o', f'{Path(model).stem}.plan'])}")


@command(
    net_arguments,
    click.option(
        "-o",
        "repository",
        metavar="REPOSITORY",
        type=OutputFolder(),
        required=True,
        help="The model repository, where the model becomes a folder.",
    ),
    field_option(
        BuildOptions,
        "backend",
        meaning="For --platform python: rtx or enterprise writes a plan instead of an ONNX model.",
    ),
    only={BuildOptions: ()},
)
def triton(
    model: str,
    repository: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    serving: TritonOptions,
    building: BuildOptions,
    as_json: bool,
) -> None:
    """Write MODEL with WEIGHTS into a model repository of Triton Inference Server.

    The batch becomes the first axis of all inputs and outputs. For a recurrent net the server keeps
    the state of each sequence and gives cont: clients send the other inputs.
    """
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.front import steps
    from prototrt.converter.front.commandline.summaries import server_report

    began = time.perf_counter()
    net = load_with_weights(model, loading, rewriting)
    written = steps.triton(net, repository, serving, rewriting, building, report_graph)
    print_result(server_report(written, repository, time.perf_counter() - began), as_json, tell_summary)


@command(
    net_arguments,
    click.option(
        "-o",
        "folder",
        type=OutputFolder(),
        required=True,
        help="The folder for all files, which must be new.",
    ),
)
def deepstream(
    model: str,
    folder: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    streaming: DeepStreamOptions,
    as_json: bool,
) -> None:
    """Write MODEL with WEIGHTS as the files that Gst-nvinfer of DeepStream needs.

    They are an ONNX model, a config, labels and, for detectors, the source of a parser for the boxes.
    """
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.front import steps
    from prototrt.converter.front.commandline.summaries import video_report

    began = time.perf_counter()
    net = load_with_weights(model, loading, rewriting)
    written = steps.deepstream(net, folder, streaming, rewriting, report_graph)
    print_result(video_report(written, time.perf_counter() - began), as_json, tell_summary)
