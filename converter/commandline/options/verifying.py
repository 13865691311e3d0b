"""How a net is checked: ``VerifyOptions``."""

from __future__ import annotations

from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import Ways
from prototrt.converter.options import WAY_NAMES, VerifyOptions

verify_options = options(
    declared(VerifyOptions, "ways", "--on", type=Ways(), help=f"Some of {', '.join(WAY_NAMES)}."),
    declared(
        VerifyOptions,
        "inputs",
        metavar="FILE.npz",
        help="The inputs, as for run; otherwise they are invented.",
    ),
    declared(
        VerifyOptions,
        "expect",
        metavar="FILE.npz",
        help="Outputs from elsewhere, which every way must give.",
    ),
    declared(VerifyOptions, "calls", help="How many calls, each with the state of the last."),
    declared(VerifyOptions, "seed", help="Of the invented inputs."),
    declared(VerifyOptions, "layers", help="Compare every blob that is left, not the outputs alone."),
)
