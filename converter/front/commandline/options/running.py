"""How a net or a plan is run: its calls, and the options that only plans have."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import click

from prototrt.caffe_proto.common.options import Options, at_least, meaning, one_of, option, same_as
from prototrt.caffe_proto.common.records import dataclass, field, fields, replace
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.front.commandline.options.common import refuse_options_beside
from prototrt.converter.front.commandline.options.groups import options
from prototrt.converter.front.commandline.options.parameter_types import InputFile, OutputFile
from prototrt.converter.options import MOST_CALLS, NO_SUFFIX, SECTION_NAMES, VerifyOptions, Way

if TYPE_CHECKING:
    from prototrt.converter.running.sessions.session import Session


Trust: TypeAlias = bool | str


@dataclass(frozen=True, kw_only=True)
class CallOptions(Options):
    """The calls that ``prototrt run`` makes: ``file``, ``draw`` and ``labels`` are files."""

    file: str = field(
        metadata=meaning("The file for the outputs.", shown="FILE.npz", writes=(".npz", NO_SUFFIX))
    )
    on: Way | None = one_of(
        Way,
        "What computes a net; by default onnx where onnxruntime is installed and computes the net in float32, else"
        " reference. reference: the primitives, in NumPy. network: the network that"
        " TensorRT receives, in NumPy. onnx: onnxruntime. onnx-lstm: the same with ONNX's LSTM."
        " torch: the PyTorch module. tensorrt-python: as network, of the network that the program for TensorRT's API"
        " makes. opencv, openvino: these programs; openvino-f32: with float32 as its precision."
        " engine: TensorRT, on a GPU.",
        default=None,
    )
    device: str | None = same_as(VerifyOptions, "device")
    calls: int | None = at_least(1, "Number of calls; state carries over from call to call.", most=MOST_CALLS)
    draw: str | None = option(
        "Draw the boxes of a detector (SSD, YOLO) on its images, at their own size. Needs Pillow.",
        shown="FILE.png",
        writes=(".png",),
    )
    labels: str | None = option(
        "With --draw: a text file with a class in each line, with or without the background as the first.",
        shown="FILE.txt",
        reads=True,
    )


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Options):
    """What ``prototrt bench`` measures."""

    calls: int = at_least(1, "How many calls to time; by default 100.", 100, most=MOST_CALLS)
    layer_times: bool = option("Also print the time of each layer.", False, once="profile")


selftest_options = options(
    click.option(
        "-o", "file", type=OutputFile(".json"), metavar="FILE.json", help="The file for the results."
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


@dataclass(frozen=True, kw_only=True)
class TrustOptions(Options):
    """Which files of strangers are accepted: any, those with a manifest, or those of one conversion."""

    trust: Trust = option(
        "Check MODEL, its manifest, which must have this digest, and all files that the manifest lists.",
        False,
        shown="DIGEST",
    )

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
        for each in fields(self):
            if getattr(self, each.name):
                option = "--" + each.name.replace("_", "-")
                raise click.UsageError(f"{option} is for plans, but {visible_line(model)} is not a plan")


@dataclass(frozen=True, kw_only=True)
class RunningOptions(TrustOptions):
    """How a plan is run. ``runtime_cache`` is a file."""

    trust: Trust = option(
        "Run only the plan or the ONNX model whose manifest has this digest, as `inspect` shows it; without a"
        " digest, also a plan without a manifest.",
        False,
        shown="[DIGEST]",
    )
    runtime_cache: str | None = option(
        "Where TensorRT for RTX keeps compiled kernels; by default beside the plan.", writes=()
    )

    def session(self, plan: str, *allowed: str) -> Session:
        """A session on a plan. ``allowed`` are the options of the command that make sense with one."""
        from prototrt.converter.running.sessions.session import Session

        refuse_options_beside(plan, "an engine", *(each.name for each in fields(self)), "as_json", *allowed)
        return Session(plan, on="engine", cut=True, trust=self.trust, runtime_cache=self.runtime_cache)

    def refuse_for_onnx(self, model: str) -> None:
        """Raise ``UsageError`` if there are options for plans alone and the model is an ONNX model."""
        replace(self, trust=self.trust is True).refuse_for_net(model)
