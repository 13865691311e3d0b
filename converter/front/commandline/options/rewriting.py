"""How a net is rewritten: ``RewriteOptions``."""

from __future__ import annotations

from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import BlobShapes, InputFile, StateSource
from prototrt.surgery.options import RewriteOptions

preprocess_option = field_option(RewriteOptions, "preprocess")
rewrite_options = options(
    field_option(RewriteOptions, "sequence"),
    field_option(RewriteOptions, "state", type=StateSource()),
    field_option(RewriteOptions, "layout"),
    field_option(RewriteOptions, "force"),
    preprocess_option,
    field_option(RewriteOptions, "max_memory", metavar="SIZE"),
    field_option(RewriteOptions, "strict"),
    field_option(RewriteOptions, "precision"),
    field_option(RewriteOptions, "scales", type=InputFile(), metavar="FILE.json"),
    field_option(RewriteOptions, "calibration_cache", type=InputFile(), metavar="FILE"),
    field_option(RewriteOptions, "quantize_all"),
    field_option(RewriteOptions, "keep_float", multiple=True, metavar="LAYER"),
    field_option(RewriteOptions, "nms"),
    *(
        field_option(RewriteOptions, f"{which}_shapes", type=BlobShapes())
        for which, meaning in (("min", "Smallest"), ("opt", "Usual"), ("max", "Largest"))
    ),
)
