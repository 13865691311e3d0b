"""Which net a command is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

import prototrt
from prototrt.converter.commandline.options.groups import gathered
from prototrt.converter.commandline.options.parameter_types import BlobShape, Override

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model
    from prototrt.surgery.options import RewriteOptions

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which net is meant: the options that all commands about a model share, and what most have besides."""

    model: str
    phase: str
    level: int
    stages: tuple[str, ...]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    allow_unknown: bool
    overrides: tuple[tuple[str, str], ...] = ()
    weights: str | None = None
    outputs: tuple[str, ...] = ()
    cont: str = "keep"
    random_weights: int | None = None

    def load(self) -> Model:
        """The net with weights, which must be given or invented."""
        if self.weights is None and self.random_weights is None and not self._holds_weights():
            raise click.UsageError("give WEIGHTS, or --random-weights SEED to try the topology alone")
        return self.load_topology()

    def load_topology(self) -> Model:
        """The net, with its weights if they are given."""
        if self.weights is not None and self.random_weights is not None and not self._is_caffe2():
            raise click.UsageError("give WEIGHTS or --random-weights, not both")
        return prototrt.load(
            self.model,
            self.weights,
            phase=self.phase,
            level=self.level,
            stages=self.stages,
            random_weights=self.random_weights,
            allow_unknown=self.allow_unknown,
            overrides=dict(self.overrides),
        )

    def _holds_weights(self) -> bool:
        from prototrt.caffe_proto.caffe2.files import is_database

        return is_database(self.model)

    def _is_caffe2(self) -> bool:
        """Caffe2's init nets state the shapes of weights that are drawn at random."""
        from prototrt.caffe_proto.caffe2.files import is_netdef

        return is_netdef(self.model)

    @property
    def expansion(self) -> RewriteOptions:
        """What surgery is told of the net, by any command."""
        from prototrt.surgery.options import RewriteOptions

        return RewriteOptions(shapes=dict(self.shapes), outputs=list(self.outputs) or None, cont=self.cont)


def _net_options(*stage_names: str) -> tuple[Callable[[F], F], ...]:
    return (
        click.option("--phase", type=click.Choice(["TEST", "TRAIN"], case_sensitive=False), default="TEST"),
        click.option("--level", type=int, default=0, help="NetState level."),
        click.option(
            *stage_names, "stages", multiple=True, metavar="NAME", help="NetState stage; repeatable."
        ),
        click.option(
            "--shape",
            "shapes",
            type=BlobShape(),
            multiple=True,
            help="Shape of an input, as in data:1x3x224x224; repeatable.",
        ),
        click.option(
            "--allow-unknown",
            is_flag=True,
            help="Drop unknown fields that only matter to training, with a warning.",
        ),
    )


def _model_options(*stage_names: str) -> Callable[[F], F]:
    return gathered(
        ModelOptions,
        "options",
        click.argument("model", type=click.Path()),
        click.argument("weights", required=False, type=click.Path()),
        *_net_options(*stage_names),
        click.option(
            "--output",
            "outputs",
            multiple=True,
            metavar="BLOB",
            help="Cut the net at this blob; repeatable. auto: before what cannot be converted.",
        ),
        click.option(
            "--cont",
            type=click.Choice(["keep", "drop"]),
            default="keep",
            help="drop: cont is 1 everywhere and no input; a sequence begins by zeroing the state.",
        ),
        click.option(
            "--random-weights",
            type=click.IntRange(min=0),
            metavar="SEED",
            help="Invent the weights: the topology alone.",
        ),
        click.option(
            "--set",
            "overrides",
            type=Override(),
            multiple=True,
            help="Set a field of the layers whose names match, as in"
            " 'lstm*.recurrent_param.cell_activation=ReLU'; repeatable.",
        ),
    )


model_options = _model_options("--stage", "--net-stage")
drawing_options = _model_options("--net-stage")  # there, --stage says what is drawn
net_options = gathered(
    ModelOptions, "options", click.argument("model", type=click.Path()), *_net_options("--stage")
)
