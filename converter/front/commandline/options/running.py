"""How a net or a plan is run: its calls, and the options that only plans have."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import click

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.front.commandline.options.common import refuse_options_beside
from prototrt.converter.front.commandline.options.data import data_options, image_options
from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import (
    Blobs,
    InputFile,
    OutputFile,
    Trust,
    joined,
)
from prototrt.converter.options import MOST_CALLS, NO_SUFFIX, SECTION_NAMES, WAY_NAMES, VerifyOptions, Way

if TYPE_CHECKING:
    from prototrt.converter.running.sessions.session import Session
    from prototrt.surgery.options import RewriteOptions


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The calls that ``prototrt run`` makes: ``target``, ``draw`` and ``labels`` are files."""

    target: str
    on: Way | None
    calls: int | None
    draw: str | None
    labels: str | None
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
        help="What computes a net; by default onnx where onnxruntime is installed and computes the net in float32, else"
        " reference. reference: the primitives, in NumPy. network: the network that"
        " TensorRT receives, in NumPy. onnx: onnxruntime. onnx-lstm: the same with ONNX's LSTM."
        " torch: the PyTorch module. tensorrt-python: as network, of the network that the program for TensorRT's API"
        " makes. opencv, openvino: these programs; openvino-f32: with float32 as its precision."
        " engine: TensorRT, on a GPU.",
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
        help="Draw the boxes of a detector (SSD, YOLO) on its images, at their own size. Needs Pillow.",
    ),
    click.option(
        "--labels",
        type=InputFile(),
        metavar="FILE.txt",
        help="With --draw: a text file with a class in each line, with or without the background as the first.",
    ),
)


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """Which files of strangers are accepted: any, those with a manifest, or those of one conversion."""

    trust: bool | str

    def check_files(self, model: str) -> list[str] | None:
        """The listed files that are not here, after the others were checked; None if that is not asked.

        Raises ``ConversionError`` for what differs.
        """
        from prototrt.converter.files.companions.pinning import check_files, pin_of, trusted_manifest

        if self.trust is False:
            return None
        if (pin := pin_of(self.trust)) is None:
            raise click.UsageError("--trust needs the digest of the manifest: --trust sha256:...")
        product = model.removesuffix(".json")
        return check_files(product, trusted_manifest(product, pin))

    def refuse_for_net(self, model: str) -> None:
        """Raise ``UsageError`` if there are options for plans and the model is not a plan."""
        for field in fields(self):
            if getattr(self, field.name):
                option = "--" + field.name.replace("_", "-")
                raise click.UsageError(f"{option} is for plans, but {visible_line(model)} is not a plan")


@dataclass(frozen=True, slots=True)
class RunningOptions(TrustOptions):
    """How a plan is run. ``runtime_cache`` is a file."""

    runtime_cache: str | None

    def session(self, plan: str, *allowed: str) -> Session:
        """A session on a plan. ``allowed`` are the options of the command that make sense with one."""
        from prototrt.converter.running.sessions.session import Session

        refuse_options_beside(plan, "an engine", *(field.name for field in fields(self)), "as_json", *allowed)
        return Session(plan, on="engine", cut=True, trust=self.trust, runtime_cache=self.runtime_cache)

    def refuse_for_onnx(self, model: str) -> None:
        """Raise ``UsageError`` if there are options for plans alone and the model is an ONNX model."""
        replace(self, trust=self.trust is True).refuse_for_net(model)


trust_options = options(
    click.option(
        "--trust",
        type=Trust(),
        default=False,
        metavar="DIGEST",
        help="Check MODEL, its manifest, which must have this digest, and all files that the manifest lists.",
    ),
)
running_options = options(
    click.option(
        "--trust",
        type=Trust(),
        default=False,
        metavar="[DIGEST]",
        help="Run only the plan or the ONNX model whose manifest has this digest, as `inspect` shows it; without a"
        " digest, also a plan without a manifest.",
    ),
    click.option(
        "--runtime-cache",
        type=OutputFile(),
        help="Where TensorRT for RTX keeps compiled kernels; by default beside the plan.",
    ),
)
