"""How a net becomes a model of Triton: ``TritonOptions``."""

from __future__ import annotations

import click

from prototrt.converter.commandline.options.groups import field_option, options
from prototrt.converter.commandline.options.parameter_types import InputFile, Moment
from prototrt.converter.options import BuildOptions, TritonOptions

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
    field_option(TritonOptions, "sign", type=InputFile(), metavar="PRIVATE_KEY"),
    field_option(TritonOptions, "sign_label", metavar="LABEL"),
    field_option(TritonOptions, "trust_key", metavar="PUBLIC_KEY"),
    field_option(TritonOptions, "trust_label", metavar="LABEL"),
    field_option(TritonOptions, "trust_not_before", type=Moment()),
    field_option(
        BuildOptions,
        "backend",
        meaning="For --platform python: rtx or enterprise writes a plan instead of an ONNX model.",
    ),
)
