"""The command that makes an engine, an ONNX model or a PyTorch module. Most runs are of it, so it is alone here."""

from __future__ import annotations

from dataclasses import replace

import click

from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.frame import HELP
from prototrt.converter.front.commandline.options.common import verbosity
from prototrt.converter.front.commandline.options.groups import field_option
from prototrt.converter.front.commandline.options.loading import net_arguments
from prototrt.converter.front.commandline.options.parameter_types import ProductFile
from prototrt.converter.front.commandline.options.stages import print_after_option, print_graphs_after
from prototrt.converter.front.commandline.printing import print_result, report_graph, tell_summary, warn
from prototrt.converter.options import PRODUCT_NAMES, ConversionOptions


@command(
    net_arguments,
    field_option(ConversionOptions, "file", type=ProductFile(*PRODUCT_NAMES)),
    print_after_option,
    context_settings=HELP,
)
def convert(model: str, options: ConversionOptions, print_after: tuple[str, ...], as_json: bool) -> None:
    """Build an engine from MODEL (a prototxt) and WEIGHTS (a caffemodel), or write an ONNX model or a PyTorch module.

    \b
      prototrt convert deploy.prototxt net.caffemodel -o net.plan
      prototrt convert deploy.prototxt net.caffemodel --target jetson -o net.onnx

    With `--target tensorrt-python` it writes a program that builds the engine through TensorRT's API.

    Writes FILE, and its manifest FILE.json: bindings, recurrent pairs, origin.
    """
    from prototrt.converter.conversion import convert_files
    from prototrt.converter.front.commandline.progress import BuildProgress, terminal
    from prototrt.converter.front.commandline.summaries import conversion_report

    if print_after and as_json:
        raise click.UsageError("--print-after prints text: leave out --json")
    with (
        print_graphs_after(print_after),
        BuildProgress(None if verbosity().quiet else terminal()) as progress,
    ):
        converted = convert_files(model, replace(options, progress=progress), report_graph)
    warn(converted.doubts)
    print_result(conversion_report(converted), as_json, tell_summary)
