"""How a net is rewritten: ``RewriteOptions``."""

from __future__ import annotations

from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import BlobShapes, InputFile, StateSource
from prototrt.surgery.options import RewriteOptions

preprocess_option = declared(
    RewriteOptions,
    "preprocess",
    help="Subtract the mean and scale, as the data layers of the training net did.",
)
rewrite_options = options(
    declared(
        RewriteOptions,
        "sequence",
        help="How recurrent layers run; auto: step where there is one step, else loop.",
    ),
    declared(
        RewriteOptions,
        "state",
        type=StateSource(),
        help="Recurrent state: inputs and outputs to feed back, zero at each call, or arrays from a file.",
    ),
    declared(
        RewriteOptions,
        "layout",
        help="batch-first: inputs, outputs and states of recurrent nets begin with the batch N: (N, T, ...),"
        " and (N, ...) where T is 1.",
    ),
    declared(RewriteOptions, "force", help="Unroll more than 64 steps, however long the build takes."),
    preprocess_option,
    declared(
        RewriteOptions,
        "max_memory",
        metavar="SIZE",
        help="Memory limit for constants that the net itself makes, as in 4GB; by default 80 % of the memory.",
    ),
    declared(
        RewriteOptions,
        "strict",
        help="Refuse weights that are NaN or infinite, and nets that would be cut before a layer.",
    ),
    declared(
        RewriteOptions,
        "precision",
        help="The precision of products: convolutions, InnerProduct, and the products of an LSTM. Inputs, outputs and"
        " state stay float32. int8 and fp8 need scales.",
    ),
    declared(
        RewriteOptions,
        "scales",
        type=InputFile(),
        metavar="FILE.json",
        help="The scales for int8 and fp8, written by `prototrt calibrate`.",
    ),
    declared(
        RewriteOptions,
        "calibration_cache",
        type=InputFile(),
        metavar="FILE",
        help="Scales that another program measured: a calibration cache of TensorRT, or a table of ncnn,"
        " caffe-int8-convert-tools or NVDLA.",
    ),
    declared(
        RewriteOptions,
        "quantize_all",
        help="Also quantize the first convolution, the last product and depthwise convolutions.",
    ),
    declared(
        RewriteOptions,
        "keep_float",
        multiple=True,
        metavar="LAYER",
        help="Do not quantize this layer; repeatable.",
    ),
    declared(
        RewriteOptions,
        "nms",
        help="native: suppress boxes with the NMS layer of ONNX or TensorRT where it decides as the fork does."
        " TensorRT for RTX has no such layer.",
    ),
    *(
        declared(
            RewriteOptions,
            f"{which}_shapes",
            type=BlobShapes(),
            help=f"{meaning} input shapes of the engine, as in data:1x3x32x32,cont:1x1.",
        )
        for which, meaning in (("min", "Smallest"), ("opt", "Usual"), ("max", "Largest"))
    ),
)
