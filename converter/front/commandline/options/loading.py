"""Which net a command takes: its files, and the options of a command that does not rewrite it for a backend."""

from __future__ import annotations

import click

from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.commandline.options.groups import options
from prototrt.converter.front.commandline.options.parameter_types import InputFile
from prototrt.surgery.options import RewriteOptions

net_argument = click.argument("model", type=InputFile())
weights_argument = click.argument("weights", required=False, type=InputFile())
net_arguments = options(net_argument, weights_argument)
_OF_TEXT = ("phase", "level", "stages", "define", "allow_unknown")
_OF_INPUTS = ("shapes", "dynamic", "sizes")
OF_NETS = {LoadOptions: _OF_TEXT, RewriteOptions: _OF_INPUTS}
OF_RULES = {LoadOptions: _OF_TEXT, RewriteOptions: (*_OF_INPUTS, "rules")}
OF_UPGRADES = {
    LoadOptions: (*_OF_TEXT, "random_weights", "overrides"),
    RewriteOptions: (*_OF_INPUTS, "cont", "force"),
}
OF_PARAMETERS = {LoadOptions: (*_OF_TEXT, "overrides")}
_OF_DATA = "outputs keep_constant cont recurrences fork settings rules replace plugin preprocess"
OF_CALIBRATION = {RewriteOptions: (*_OF_INPUTS, *_OF_DATA.split())}
