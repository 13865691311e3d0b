"""Options that choose the net: ``LoadOptions``, and those of ``RewriteOptions`` that describe the net itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import (
    BlobShape,
    Definition,
    FedOutput,
    InputFile,
    OutputFile,
    Override,
    PluginForType,
    RuleForLayer,
    SizeRange,
    Ways,
    joined,
)
from prototrt.converter.options import UPGRADE_STAGES
from prototrt.surgery.options import RewriteOptions

F = TypeVar("F", bound=Callable[..., Any])


def _net_options(*stage_names: str) -> Callable[[F], F]:
    return options(
        field_option(LoadOptions, "phase", type=click.Choice(["TEST", "TRAIN"], case_sensitive=False)),
        field_option(LoadOptions, "level", type=int, metavar="N"),
        field_option(LoadOptions, "stages", *stage_names, multiple=True, metavar="NAME"),
        field_option(RewriteOptions, "shapes", "--shape", type=BlobShape(), multiple=True, collect=dict),
        field_option(RewriteOptions, "dynamic", type=Ways(), multiple=True, collect=joined),
        field_option(RewriteOptions, "sizes", "--size", type=SizeRange(), multiple=True, collect=dict),
        field_option(LoadOptions, "define", type=Definition(), multiple=True, collect=dict),
        field_option(LoadOptions, "allow_unknown"),
    )


def _model_options(*stage_names: str) -> Callable[[F], F]:
    return options(
        click.argument("model", type=InputFile()),
        click.argument("weights", required=False, type=InputFile()),
        _net_options(*stage_names),
        field_option(RewriteOptions, "outputs", "--output", multiple=True, metavar="BLOB"),
        field_option(RewriteOptions, "keep_constant", multiple=True, metavar="BLOB"),
        field_option(RewriteOptions, "cont"),
        field_option(
            RewriteOptions, "recurrences", "--recurrence", type=FedOutput(), multiple=True, collect=dict
        ),
        field_option(LoadOptions, "random_weights", metavar="SEED"),
        field_option(RewriteOptions, "fork"),
        field_option(RewriteOptions, "settings", type=InputFile(), metavar="FILE.json"),
        field_option(RewriteOptions, "rules", type=InputFile(), metavar="FILE.py"),
        field_option(
            RewriteOptions,
            "replace",
            type=RuleForLayer(),
            metavar="LAYER=FILE.py:FUNCTION",
            multiple=True,
            collect=dict,
        ),
        field_option(RewriteOptions, "plugin", type=PluginForType(), multiple=True, collect=dict),
        field_option(LoadOptions, "overrides", "--set", type=Override(), multiple=True, collect=dict),
    )


model_options = _model_options("--stage", "--net-stage")
drawing_options = _model_options("--net-stage")  # there, --stage chooses what is drawn
net_options = options(click.argument("model", type=InputFile()), _net_options("--stage"))
upgrade_options = options(
    click.argument("model", type=InputFile()),
    click.argument("weights", required=False, type=InputFile()),
    click.option(
        "-o",
        "weights_file",  # as Python calls the second file: messages about either one say -o
        multiple=True,
        type=OutputFile(".prototxt", ".pbtxt", ".txt", ".caffemodel"),
        help="The prototxt to write, and the caffemodel, by default beside it. Without any, the prototxt is printed.",
    ),
    click.option(
        "--stage",
        type=click.Choice(UPGRADE_STAGES),
        default="parsed",
        show_default=True,
        help="rewritten: write recurrent layers out in plain ones, step by step, with states as inputs and outputs.",
    ),
    _net_options("--net-stage"),
    field_option(RewriteOptions, "cont"),
    field_option(RewriteOptions, "force"),
    field_option(LoadOptions, "random_weights", metavar="SEED"),
    field_option(LoadOptions, "overrides", "--set", type=Override(), multiple=True, collect=dict),
)
"""``--stage`` chooses what is written."""
parameter_options = options(
    click.argument("model", type=InputFile()),
    click.argument("weights", type=InputFile()),
    field_option(LoadOptions, "phase", type=click.Choice(["TEST", "TRAIN"], case_sensitive=False)),
    field_option(LoadOptions, "level", type=int, metavar="N"),
    field_option(LoadOptions, "stages", "--stage", multiple=True, metavar="NAME"),
    field_option(LoadOptions, "define", type=Definition(), multiple=True, collect=dict),
    field_option(LoadOptions, "allow_unknown"),
    field_option(LoadOptions, "overrides", "--set", type=Override(), multiple=True, collect=dict),
)
rule_options = options(
    click.argument("model", type=InputFile()),
    click.argument("layer"),
    click.argument("weights", required=False, type=InputFile()),
    _net_options("--stage"),
    field_option(RewriteOptions, "rules", type=InputFile(), metavar="FILE.py"),
)
