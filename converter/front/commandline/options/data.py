"""Where the inputs of calls come from: ``DataOptions``."""

from __future__ import annotations

from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import (
    DataSource,
    Numbers,
    PythonFunction,
    Sizes,
)
from prototrt.converter.options import DataOptions

data_options = options(
    field_option(DataOptions, "inputs", type=DataSource(), metavar="DATA"),
    field_option(DataOptions, "data_loader", type=PythonFunction(), metavar="FILE.py:FUNCTION"),
)
image_options = options(
    field_option(DataOptions, "mean", type=Numbers()),
    field_option(DataOptions, "scale", type=float),
    field_option(DataOptions, "channels"),
    field_option(DataOptions, "resize", type=Sizes()),
)
