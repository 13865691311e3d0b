"""How a net becomes a model of Triton, or a folder for DeepStream: ``TritonOptions``, ``DeepStreamOptions``."""

from __future__ import annotations

import click

from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import InputFile, Numbers
from prototrt.converter.options import BuildOptions, DeepStreamOptions, TritonOptions

triton_options = options(
    click.option(
        "-o",
        "repository",
        metavar="REPOSITORY",
        required=True,
        help="The model repository, where the model becomes a folder.",
    ),
    field_option(TritonOptions, "name", metavar="NAME"),
    field_option(TritonOptions, "max_batch_size"),
    field_option(TritonOptions, "platform"),
    field_option(TritonOptions, "labels", type=InputFile(), metavar="FILE"),
    field_option(
        BuildOptions,
        "backend",
        meaning="For --platform python: rtx or enterprise writes a plan instead of an ONNX model.",
    ),
)

deepstream_options = options(
    click.option(
        "-o", "folder", metavar="FOLDER", required=True, help="The folder for all files, which must be new."
    ),
    field_option(DeepStreamOptions, "name", metavar="NAME"),
    field_option(DeepStreamOptions, "target"),
    field_option(DeepStreamOptions, "labels", type=InputFile(), metavar="FILE"),
    field_option(DeepStreamOptions, "old_config", type=InputFile(), metavar="FILE"),
    field_option(DeepStreamOptions, "mean", type=Numbers()),
    field_option(DeepStreamOptions, "scale", type=float),
    field_option(DeepStreamOptions, "channels"),
)
