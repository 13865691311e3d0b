"""The programs ``prototrt`` and ``convert``: all commands under one name, and the ends of the process."""

from __future__ import annotations

import sys

import click

from prototrt.converter.front.commandline.crashes import survive
from prototrt.converter.front.commandline.frame import HELP, CommandsOnDemand
from prototrt.converter.front.commandline.options.common import common_options

COMMANDS = {
    "batch": ("many_nets", "Convert all models listed in MODELS.yaml."),
    "bench": ("running", "Time an engine on a GPU, or a net on the CPU."),
    "cache": ("many_nets", "The conversions that `batch --cache` keeps."),
    "calibrate": ("calibrating", "Measure the scales that int8 needs, on data."),
    "convert": ("converting", "Build an engine, or write an ONNX model."),
    "deepstream": ("forms", "Write a folder for DeepStream's Gst-nvinfer."),
    "deploy": ("forms", "Cut a training net down to its deploy net."),
    "doctor": ("showing", "Report what is installed here, and what is missing."),
    "dot": ("showing", "Draw a net, or the graph made from it."),
    "inspect": ("showing", "Show layers, shapes, parameters and multiply-adds."),
    "layers": ("showing", "List the supported layer types and what each becomes."),
    "new-rule": ("forms", "Begin a rule for a layer that has none."),
    "run": ("running", "Run a net or an ONNX model on the CPU, or an engine on a GPU."),
    "selftest": ("showing", "Try on this machine what prototrt does, and report what works."),
    "survey": ("many_nets", "Report which nets convert, and what stops the others."),
    "triton": ("forms", "Write a model repository for Triton."),
    "upgrade": ("forms", "Write an old net and its weights in Caffe's current form."),
    "verify": ("running", "Compute a net in several ways, and compare them."),
    "weights": ("parameters", "List, read and write single matrices of weights, gate by gate."),
}
"""By name: the module of ``converter/front/commandline/commands/``, and what the command does."""


@click.group(cls=CommandsOnDemand, places=COMMANDS, context_settings=HELP)
@common_options
def main() -> None:
    """Convert Caffe models, above all recurrent ones, to TensorRT engines."""


def prototrt_main() -> None:
    """``prototrt``, as it is installed."""
    survive(main)


def convert_main() -> None:
    """``convert``, installed as a separate command, which hides ImageMagick's command of this name."""
    from prototrt.converter.front.commandline.imagemagick import message_for_images
    from prototrt.converter.front.commandline.printing import show_lines

    if message := message_for_images(sys.argv[1:]):
        show_lines(message, err=True)
        sys.exit(2)
    survive(lambda: main.commands["convert"](prog_name="convert"))
