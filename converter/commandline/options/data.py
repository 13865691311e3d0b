"""Where the inputs of calls come from: ``DataOptions``."""

from __future__ import annotations

from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import DataSource, Numbers, PythonFunction, Sizes
from prototrt.converter.options import DataOptions

data_options = options(
    declared(
        DataOptions,
        "inputs",
        type=DataSource(),
        metavar="DATA",
        help="The inputs: an npz file with arrays by blob name, an npy file, an image, or a folder of such files.",
    ),
    declared(
        DataOptions,
        "data_loader",
        type=PythonFunction(),
        metavar="FILE.py:FUNCTION",
        help="A Python function that yields inputs, as in Polygraphy: dictionaries of arrays by blob.",
    ),
)
image_options = options(
    declared(DataOptions, "mean", type=Numbers(), help="For images: subtract this from pixels of 0 to 255."),
    declared(
        DataOptions, "scale", type=float, help="For images: multiply by this after subtracting the mean."
    ),
    declared(DataOptions, "channels", help="For images: the order of the channels."),
    declared(
        DataOptions,
        "resize",
        type=Sizes(),
        help="For images: resize to this height and width, or to this shorter side, and crop the middle.",
    ),
)
