"""What a graph is converted to: ``BuildOptions``, ``ExportOptions``, ``ConvertOptions``."""

from __future__ import annotations

import click

from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import InputFile, OutputFile, ProductFile
from prototrt.converter.options import NO_SUFFIX, PRODUCT_NAMES, BuildOptions, ConvertOptions, ExportOptions

build_options = options(
    click.option(
        "-o",
        "file",
        type=ProductFile(*PRODUCT_NAMES),
        required=True,
        help="An engine, or an ONNX model: .onnx.",
    ),
    declared(
        ConvertOptions,
        "target",
        help="The machine that will run the result. rtx: an engine for GeForce and RTX GPUs. datacenter, jetson: an"
        " ONNX model, and a script that builds the engine there with trtexec. onnx: an ONNX model for onnxruntime.",
    ),
    declared(
        BuildOptions,
        "backend",
        help="rtx: TensorRT for RTX, which builds without a GPU, for GeForce and RTX GPUs. enterprise: TensorRT itself,"
        " which needs a GPU of the kind that runs the engine. auto: enterprise if it can build here, else rtx.",
    ),
    declared(
        BuildOptions,
        "tile",
        help="How a Tile, such as that of cont, is lowered: as a broadcast where possible, as a slice"
        " that wraps, or as a plugin, which TensorRT for RTX does not support.",
    ),
    declared(BuildOptions, "tf32", help="Allow TF32: faster, but not Caffe's float32."),
    declared(ExportOptions, "onnx_lstm", help="Use ONNX's LSTM operator where a recurrence equals it."),
    declared(ConvertOptions, "verify", help="Compare the network with our primitives before writing it."),
    declared(
        ConvertOptions,
        "sign",
        type=InputFile(),
        metavar="PRIVATE_KEY",
        help="Sign the manifest of an engine with this Ed25519 key (PEM or OpenSSH), for `run --trust-key`.",
    ),
    click.option(
        "--emit-header",
        "header",
        type=OutputFile(".h", ".hh", ".hpp", ".hxx", NO_SUFFIX),
        metavar="FILE.h",
        help="Also write a C++ header with the names, types and shapes of inputs and outputs, and the recurrent pairs.",
    ),
)
