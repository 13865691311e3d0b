"""How a net or a plan is run: its calls, and the options that only plans have."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import click

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.commandline.options.common import refuse_options_beside
from prototrt.converter.commandline.options.data import data_options, image_options
from prototrt.converter.commandline.options.groups import field_option, options
from prototrt.converter.commandline.options.parameter_types import (
    Blobs,
    InputFile,
    Moment,
    OutputFile,
    joined,
)
from prototrt.converter.options import MOST_CALLS, NO_SUFFIX, SECTION_NAMES, WAY_NAMES, VerifyOptions, Way

if TYPE_CHECKING:
    from prototrt.converter.companions.signing import Trust
    from prototrt.converter.sessions.session import Session
    from prototrt.surgery.options import RewriteOptions


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The calls that ``prototrt run`` makes: ``target`` and ``draw`` are files."""

    target: str
    on: Way | None
    calls: int | None
    draw: str | None
    device: str | None
    shown: tuple[str, ...] | None

    def watching(self, rewriting: RewriteOptions) -> RewriteOptions:
        """The options of the net for this way of running, with the blobs that ``--outputs`` names as outputs."""
        rewriting = replace(rewriting, for_operators=self.on == "onnx-lstm")
        if self.shown is None:
            return rewriting
        if rewriting.outputs is not None:
            raise click.UsageError("--outputs and --output both name blobs: give one of them")
        return replace(rewriting, outputs=self.shown)


selftest_options = options(
    click.option(
        "-o", "target", type=OutputFile(".json"), metavar="FILE.json", help="The file for the results."
    ),
    click.option(
        "--only",
        type=click.Choice(SECTION_NAMES),
        multiple=True,
        help="A section to try; by default all that can be tried here. Repeatable.",
    ),
    click.option(
        "--budget",
        type=click.FloatRange(min=1),
        metavar="SECONDS",
        help="The time for all of it; by default 280. What does not fit is not tried.",
    ),
    click.option(
        "--show",
        "shown",
        type=InputFile(),
        metavar="FILE.json",
        help="Print the tables of results in Markdown.",
    ),
)

call_options = options(
    data_options,
    image_options,
    click.option(
        "-o",
        "target",
        type=OutputFile(".npz", NO_SUFFIX),
        required=True,
        metavar="FILE.npz",
        help="The file for the outputs.",
    ),
    click.option(
        "--on",
        type=click.Choice(WAY_NAMES),
        help="What computes. reference, the default for a net: the primitives, in NumPy. network: the network that"
        " TensorRT receives, in NumPy. onnx: onnxruntime. onnx-lstm: the same with ONNX's LSTM."
        " torch: the PyTorch module. engine: TensorRT, on a GPU.",
    ),
    field_option(VerifyOptions, "device", metavar="DEVICE"),
    click.option(
        "--outputs",
        "shown",
        type=Blobs(),
        multiple=True,
        callback=lambda context, parameter, values: joined(values) or None,
        help="Write these blobs instead of the net's outputs. Repeatable.",
    ),
    click.option(
        "--calls",
        type=click.IntRange(min=1, max=MOST_CALLS),
        metavar="N",
        help="Number of calls; state carries over from call to call.",
    ),
    click.option(
        "--draw",
        type=OutputFile(".png"),
        metavar="FILE.png",
        help="Draw the boxes of a detector (SSD, YOLO) on its input images. Needs Pillow.",
    ),
)


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """Which signed plans are accepted. ``trust_key`` are files."""

    trust_key: tuple[str, ...]
    trust_label: str | None
    trust_not_before: str | None

    @property
    def demand(self) -> Trust | None:
        """What is demanded of a plan, if anything is."""
        from prototrt.converter.companions.signing import Trust

        for option, value in (("label", self.trust_label), ("not-before", self.trust_not_before)):
            if value is not None and not self.trust_key:
                raise click.UsageError(
                    f"--trust-{option} is about signed plans\n  fix: give --trust-key PUBLIC_KEY, too"
                )
        if not self.trust_key:
            return None
        return Trust(self.trust_key, label=self.trust_label, not_before=self.trust_not_before)

    def refuse_other_plans(self, file: str) -> bool:
        """Raise ``ConversionError`` for a plan that is not accepted; return whether its signature was checked."""
        from prototrt.converter.runtime.plan_file import is_plan, load_plan

        demand = self.demand
        if demand is not None and not is_plan(file):
            self.refuse_for_net(file)
        elif demand is not None:
            load_plan(file, demand)
        return demand is not None

    def refuse_for_net(self, model: str) -> None:
        """Raise ``UsageError`` if there are options for plans and the model is not a plan."""
        for field in fields(self):
            if getattr(self, field.name):
                option = "--" + field.name.replace("_", "-")
                raise click.UsageError(f"{option} is for plans, but {visible_line(model)} is not a plan")


@dataclass(frozen=True, slots=True)
class RunningOptions(TrustOptions):
    """How a plan is run. ``runtime_cache`` is a file."""

    trust: bool
    runtime_cache: str | None

    def session(self, plan: str, *allowed: str) -> Session:
        """A session on a plan. ``allowed`` are the options of the command that make sense with one."""
        from prototrt.converter.sessions.session import Session

        refuse_options_beside(plan, "an engine", *(field.name for field in fields(self)), "as_json", *allowed)
        if self.trust and self.trust_key:
            raise click.UsageError(
                "--trust takes any plan, and --trust-key only signed ones: give one of them"
            )
        trust = self.demand or self.trust
        return Session(plan, on="engine", cut=True, trust=trust, runtime_cache=self.runtime_cache)


trust_options = options(
    click.option(
        "--trust-key",
        type=InputFile(),
        multiple=True,
        metavar="PUBLIC_KEY",
        help="Accept only plans signed with this key, by `convert --sign`.",
    ),
    click.option(
        "--trust-label",
        metavar="LABEL",
        help="With --trust-key: accept only a plan that is signed as this one.",
    ),
    click.option(
        "--trust-not-before",
        type=Moment(),
        help="With --trust-key: accept only a plan that was signed on this date, or later.",
    ),
)
running_options = options(
    click.option("--trust", is_flag=True, help="Run a plan without a manifest."),
    trust_options,
    click.option(
        "--runtime-cache",
        type=OutputFile(),
        help="Where TensorRT for RTX keeps compiled kernels; by default beside the plan.",
    ),
)
