"""How a net becomes a model of Triton: ``TritonOptions``."""

from __future__ import annotations

import click

from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import InputFile
from prototrt.converter.options import BuildOptions, TritonOptions

triton_options = options(
    click.option(
        "-o",
        "repository",
        metavar="REPOSITORY",
        required=True,
        help="The model repository: the model becomes a folder in it.",
    ),
    declared(
        TritonOptions, "name", metavar="NAME", help="The name of the model; by default, the name of the net."
    ),
    declared(
        TritonOptions,
        "max_batch_size",
        help="How many requests are computed together; by default 8.",
    ),
    declared(
        TritonOptions,
        "platform",
        help="What computes the model: ONNX Runtime, TensorRT, or prototrt itself in Triton's Python backend.",
    ),
    declared(
        TritonOptions,
        "labels",
        type=InputFile(),
        metavar="FILE",
        help="A text file with the name of a class in each line, for the output with as many classes.",
    ),
    declared(
        BuildOptions,
        "backend",
        help="For --platform python: rtx or enterprise writes a plan, for a GPU, instead of an ONNX model.",
    ),
)
