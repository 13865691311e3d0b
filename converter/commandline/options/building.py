"""What a graph is converted to: ``BuildOptions``, ``ExportOptions``, ``ConvertOptions``."""

from __future__ import annotations

import click

from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import (
    Capabilities,
    InputFile,
    OutputFile,
    Pools,
    ProductFile,
    Profile,
)
from prototrt.converter.options import (
    HEADER_SUFFIXES,
    PRODUCT_NAMES,
    BuildOptions,
    ConvertOptions,
    ExportOptions,
)

build_options = options(
    click.option(
        "-o",
        "file",
        type=ProductFile(*PRODUCT_NAMES),
        required=True,
        help="The file to write: an ONNX model if it ends in .onnx, else an engine.",
    ),
    declared(
        ConvertOptions,
        "target",
        help="The machine that will run the result. rtx: an engine for GeForce and RTX GPUs. datacenter, jetson,"
        " triton: an ONNX model, and a script that builds the engine there with trtexec. onnx: an ONNX model"
        " for onnxruntime.",
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
        help="How to lower a Tile, such as the Tile of cont: as a broadcast where possible, as a slice"
        " that wraps, or as a plugin, which TensorRT for RTX does not support.",
    ),
    declared(BuildOptions, "tf32", help="Allow TF32: faster, but not Caffe's float32."),
    declared(
        BuildOptions,
        "profiles",
        "--profile",
        type=Profile(),
        multiple=True,
        help="Add an optimization profile for this part of the sizes that vary, as in N=1..1; repeatable.",
    ),
    declared(
        BuildOptions,
        "timing_cache_file",
        type=OutputFile(),
        help="Read the times of kernels from this file, if it exists, and add the times of this build.",
    ),
    declared(
        BuildOptions,
        "mem_pool_size",
        type=Pools(),
        help="The most memory that the builder may use, as in workspace:512MiB.",
    ),
    declared(
        BuildOptions,
        "builder_optimization_level",
        help="How long TensorRT searches for faster kernels; its own default is 3.",
    ),
    declared(BuildOptions, "version_compatible", help="Build an engine that later releases of TensorRT run."),
    declared(
        BuildOptions,
        "hardware_compatibility_level",
        help="Build an engine for more GPUs than the one here: for compute capability 8.0 and newer, or for"
        " the same compute capability.",
    ),
    declared(
        BuildOptions,
        "compute_capabilities",
        type=Capabilities(),
        help="The GPUs that TensorRT for RTX builds for, as in 7.5,8.9; by default all from 8.0 on.",
    ),
    declared(
        BuildOptions,
        "strip_weights",
        help="Leave out weights that the application puts back into the engine.",
    ),
    declared(BuildOptions, "refit", help="Let the application replace weights in the engine."),
    declared(BuildOptions, "profiling_verbosity", help="How much the engine records about its layers."),
    declared(
        BuildOptions,
        "export_layer_info",
        type=OutputFile(),
        metavar="FILE.json",
        help="Write the layers of the engine to this file; needs a GPU.",
    ),
    declared(BuildOptions, "use_dla_core", help="Build for this core of the DLA of a Jetson."),
    declared(BuildOptions, "allow_gpu_fallback", help="Run on the GPU what the DLA cannot."),
    declared(ExportOptions, "onnx_lstm", help="Use ONNX's LSTM operator where a recurrence equals it."),
    declared(
        ExportOptions, "opset", help="Write an ONNX model in this set of ONNX's operators, 11 or newer."
    ),
    declared(ConvertOptions, "verify", help="Compare the network with our primitives before writing it."),
    declared(
        ConvertOptions,
        "sign",
        type=InputFile(),
        metavar="PRIVATE_KEY",
        help="Sign the manifest of an engine with this Ed25519 key (PEM or OpenSSH), for `run --trust-key`.",
    ),
    declared(
        ConvertOptions,
        "emit_header",
        type=OutputFile(*HEADER_SUFFIXES),
        metavar="FILE.h",
        help="Also write a C++ header with the names, types and shapes of inputs and outputs, and the recurrent pairs.",
    ),
)
