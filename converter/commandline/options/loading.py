"""Options that choose the net: ``LoadOptions``, and those of ``RewriteOptions`` that describe the net itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.commandline.options.groups import declared, options
from prototrt.converter.commandline.options.parameter_types import (
    BlobShape,
    Definition,
    InputFile,
    Override,
    SizeRange,
    Ways,
)
from prototrt.surgery.options import RewriteOptions

F = TypeVar("F", bound=Callable[..., Any])


def _net_options(*stage_names: str) -> Callable[[F], F]:
    return options(
        declared(
            LoadOptions,
            "phase",
            type=click.Choice(["TEST", "TRAIN"], case_sensitive=False),
            help="The phase to read the net for; by default TEST.",
        ),
        declared(
            LoadOptions, "level", type=int, help="The NetState level to read the net for; by default 0."
        ),
        declared(
            LoadOptions,
            "stages",
            *stage_names,
            multiple=True,
            metavar="NAME",
            help="A NetState stage to read the net for; repeatable.",
        ),
        declared(
            RewriteOptions,
            "shapes",
            "--shape",
            type=BlobShape(),
            multiple=True,
            collect=dict,
            help="Shape of an input, as in data:1x3x224x224, or with sizes that vary: data:[N]x3x[16*H]x224.",
        ),
        declared(
            RewriteOptions,
            "dynamic",
            type=Ways(),
            help="Let batch, time (steps) or size (height and width) vary, or several: batch,time.",
        ),
        declared(
            RewriteOptions,
            "sizes",
            "--size",
            type=SizeRange(),
            multiple=True,
            collect=dict,
            help="Range of a size that a shape names, as in N=1..8..64: smallest, usual and largest; repeatable.",
        ),
        declared(
            LoadOptions,
            "define",
            type=Definition(),
            multiple=True,
            collect=dict,
            help="Fill in a placeholder of a template, as in BATCH=1; repeatable.",
        ),
        declared(
            LoadOptions,
            "allow_unknown",
            help="Drop unknown fields that only matter to training, with a warning.",
        ),
    )


def _model_options(*stage_names: str) -> Callable[[F], F]:
    return options(
        click.argument("model", type=InputFile()),
        click.argument("weights", required=False, type=InputFile()),
        _net_options(*stage_names),
        declared(
            RewriteOptions,
            "outputs",
            "--output",
            multiple=True,
            metavar="BLOB",
            help="Cut the net at this blob; repeatable. auto: before layers that cannot be converted;"
            " all: every blob becomes an output.",
        ),
        declared(
            RewriteOptions,
            "cont",
            help="drop: assume every step continues, and drop the cont input; zero the state to start a sequence.",
        ),
        declared(
            LoadOptions, "random_weights", metavar="SEED", help="Use random weights, to test the topology."
        ),
        declared(
            RewriteOptions,
            "fork",
            help="The fork of Caffe that the model comes from, if its layers do not show it.",
        ),
        declared(
            RewriteOptions,
            "settings",
            type=InputFile(),
            metavar="FILE.json",
            help="Settings that the model's program kept in a file of its own, such as the number of proposals.",
        ),
        declared(
            RewriteOptions,
            "rules",
            type=InputFile(),
            metavar="FILE.py",
            help="A Python file with rules for further layers. It is run.",
        ),
        declared(
            LoadOptions,
            "overrides",
            "--set",
            type=Override(),
            multiple=True,
            collect=dict,
            help="Set a field of the layers whose names match, as in"
            " 'lstm*.recurrent_param.cell_activation=ReLU'; repeatable.",
        ),
    )


model_options = _model_options("--stage", "--net-stage")
drawing_options = _model_options("--net-stage")  # there, --stage chooses what is drawn
net_options = options(click.argument("model", type=InputFile()), _net_options("--stage"))
