"""How a net is checked: ``VerifyOptions``."""

from __future__ import annotations

from prototrt.converter.front.commandline.options.data import data_options, image_options
from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import InputFile, Ways, joined
from prototrt.converter.options import VerifyOptions

verify_options = options(
    field_option(VerifyOptions, "ways", "--on", type=Ways(), multiple=True, collect=joined),
    field_option(VerifyOptions, "device", metavar="DEVICE"),
    data_options,
    image_options,
    field_option(VerifyOptions, "expect", type=InputFile(), metavar="FILE.npz"),
    field_option(VerifyOptions, "calls"),
    field_option(VerifyOptions, "seed"),
    field_option(VerifyOptions, "layers"),
    field_option(VerifyOptions, "atol", type=float, metavar="NUMBER"),
    field_option(VerifyOptions, "rtol", type=float, metavar="NUMBER"),
    field_option(VerifyOptions, "auto_keep", type=float, metavar="SHARE"),
)
