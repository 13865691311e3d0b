"""How a net is rewritten."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

import prototrt
from prototrt.converter.commandline.options.groups import gathered
from prototrt.converter.commandline.options.model import ModelOptions
from prototrt.converter.commandline.options.parameter_types import BlobShapes, StateSource

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model
    from prototrt.surgery.ir import Graph


@dataclass(frozen=True)
class Rewriting:
    """How a net is rewritten."""

    sequence: str
    state: str
    force: bool
    preprocess: bool
    strict: bool
    precision: str
    min_shapes: dict[str, tuple[int, ...]]
    opt_shapes: dict[str, tuple[int, ...]]
    max_shapes: dict[str, tuple[int, ...]]

    def rewrite(
        self, options: ModelOptions, model: Model, require_weights: bool = True, tile: str = "broadcast"
    ) -> Graph:
        made = replace(
            options.expansion,
            sequence=self.sequence,
            state=self._state(),
            tile=tile,
            force=self.force,
            preprocess=self.preprocess,
            strict=self.strict,
            precision=self.precision,
            min_shapes=self.min_shapes,
            opt_shapes=self.opt_shapes,
            max_shapes=self.max_shapes,
            require_weights=require_weights,
        )
        return prototrt.rewrite(model, options=made)

    def truth(self, options: ModelOptions, model: Model) -> Graph | None:
        """What a coarser graph is held against: the same in float32. None where it is float32 itself."""
        if self.precision == "fp32":
            return None
        return replace(self, precision="fp32").rewrite(options, model)

    def _state(self) -> str | dict[str, Any]:
        """Where recurrent state comes from; a file is read now."""
        mode, _, file = self.state.partition(":")
        if not file:
            return mode
        from prototrt.converter.sessions.feeds import load_arrays

        return load_arrays(file)


rewrite_options = gathered(
    Rewriting,
    "rewriting",
    click.option(
        "--sequence",
        type=click.Choice(["auto", "loop", "unroll", "step"]),
        default="auto",
        help="How recurrent layers run; auto: step where there is one step, else loop.",
    ),
    click.option(
        "--state",
        type=StateSource(),
        default="bind",
        help="Recurrent state: inputs and outputs to feed back, zero at each call, or arrays from a file.",
    ),
    click.option("--force", is_flag=True, help="Unroll more than 64 steps, however long that builds."),
    click.option(
        "--preprocess",
        is_flag=True,
        help="Do to the inputs what the data layers of a training net did: mean and scale.",
    ),
    click.option("--strict", is_flag=True, help="Refuse weights that are NaN or infinite."),
    click.option(
        "--precision",
        type=click.Choice(["fp32", "fp16"]),
        default="fp32",
        help="fp16: products (convolutions, InnerProduct, those of an LSTM) compute in float16; inputs, outputs"
        " and state stay float32.",
    ),
    *(
        click.option(
            f"--{which}-shapes",
            type=BlobShapes(),
            default={},
            help=f"{meaning} shapes that one engine takes, as in data:1x3x32x32,cont:1x1.",
        )
        for which, meaning in (("min", "Smallest"), ("opt", "Usual"), ("max", "Largest"))
    ),
)
