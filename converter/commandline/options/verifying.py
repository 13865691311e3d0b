"""How a net is checked: ``VerifyOptions``."""

from __future__ import annotations

from prototrt.converter.commandline.options.data import data_options, image_options
from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import InputFile, Ways
from prototrt.converter.options import WAY_NAMES, VerifyOptions

verify_options = options(
    declared(
        VerifyOptions, "ways", "--on", type=Ways(), help=f"The ways to compare: {', '.join(WAY_NAMES)}."
    ),
    data_options,
    image_options,
    declared(
        VerifyOptions,
        "expect",
        type=InputFile(),
        metavar="FILE.npz",
        help="Expected outputs, such as those of your old program.",
    ),
    declared(VerifyOptions, "calls", help="Number of calls; state carries over from call to call."),
    declared(VerifyOptions, "seed", help="Seed of the random inputs."),
    declared(VerifyOptions, "layers", help="Compare every blob that remains, not only the outputs."),
    declared(
        VerifyOptions,
        "atol",
        type=float,
        metavar="NUMBER",
        help="How far each number may be off; by default what rounding in the net's precision explains.",
    ),
    declared(
        VerifyOptions,
        "rtol",
        type=float,
        metavar="NUMBER",
        help="How far it may be off beyond that, as a share of the largest magnitude of its blob.",
    ),
    declared(
        VerifyOptions,
        "auto_keep",
        type=float,
        metavar="SHARE",
        help="With int8 or fp8: find the fewest layers to keep in float, so that this share of all decisions (0.99)"
        " is the same as in float32.",
    ),
)
