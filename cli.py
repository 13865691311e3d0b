"""The programs ``prototrt`` and ``convert``: all commands under one name, and the ends of the process."""

from __future__ import annotations

import sys

import click

from prototrt.converter.commandline.commands.converting import (
    convert,
    deepstream,
    deploy,
    new_rule,
    triton,
    upgrade,
)
from prototrt.converter.commandline.commands.many_nets import batch, cache, survey
from prototrt.converter.commandline.commands.parameters import weights
from prototrt.converter.commandline.commands.running import bench, calibrate, run, verify
from prototrt.converter.commandline.commands.showing import doctor, dot, inspect, layers, selftest
from prototrt.converter.commandline.crashes import survive
from prototrt.converter.commandline.frame import HELP, Commands
from prototrt.converter.commandline.imagemagick import message_for_images
from prototrt.converter.commandline.options.common import common_options
from prototrt.converter.commandline.printing import show_lines

COMMANDS = (
    batch,
    bench,
    cache,
    calibrate,
    convert,
    deepstream,
    deploy,
    doctor,
    dot,
    inspect,
    layers,
    new_rule,
    run,
    selftest,
    survey,
    triton,
    upgrade,
    verify,
    weights,
)


@click.group(cls=Commands, commands=COMMANDS, context_settings=HELP)
@common_options
def main() -> None:
    """Convert Caffe models, above all recurrent ones, to TensorRT engines."""


def prototrt_main() -> None:
    """``prototrt``, as it is installed."""
    survive(main)


def convert_main() -> None:
    """``convert``, installed as a separate command, which hides ImageMagick's command of this name."""
    if message := message_for_images(sys.argv[1:]):
        show_lines(message, err=True)
        sys.exit(2)
    survive(lambda: convert(prog_name="convert"))
