"""What is made of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from prototrt.converter.commandline.options.groups import gathered
from prototrt.converter.commandline.options.parameter_types import OutputFile

if TYPE_CHECKING:
    from prototrt.converter.tensorrt.builder import Progress
    from prototrt.surgery.ir import Graph


@dataclass(frozen=True)
class Building:
    """What is made of a graph, and where it goes."""

    target: str
    backend: str
    tf32: bool
    tile: str
    onnx_lstm: bool
    verify: bool

    def __post_init__(self) -> None:
        if self.is_onnx and (self.tf32 or self.backend != "auto"):
            raise click.UsageError("--backend and --tf32 are for engines, but FILE ends in .onnx")
        if self.is_onnx and self.tile == "plugin":
            raise click.UsageError("--tile plugin is for engines, but FILE ends in .onnx")
        if self.verify and self.tile == "plugin":
            raise click.UsageError(
                "--verify computes the network in NumPy, which cannot run a plugin:"
                " verify with --tile native, which is the same but for the plugin"
            )
        if self.onnx_lstm and not self.is_onnx:
            raise click.UsageError("--onnx-lstm is for ONNX models, but FILE does not end in .onnx")

    @property
    def is_onnx(self) -> bool:
        """The suffix says what is wanted."""
        return self.target.lower().endswith(".onnx")

    @property
    def kept_tiles(self) -> str:
        """What surgery does with Tiles that a broadcast can replace."""
        return "broadcast" if self.tile == "broadcast" else "keep"

    def write(self, graph: Graph, progress: Progress, truth: Graph | None = None) -> dict[str, Any]:
        """Write the target and its manifest, which is given. ``truth`` as for ``verify``."""
        from prototrt.converter.conversion import write_engine, write_onnx

        if self.is_onnx:
            return write_onnx(graph, self.target, onnx_lstm=self.onnx_lstm, check=self.verify, truth=truth)
        return write_engine(
            graph,
            self.target,
            backend=self.backend,
            tf32=self.tf32,
            tile="plugin" if self.tile == "plugin" else "native",
            progress=progress,
            check=self.verify,
            truth=truth,
        )


build_options = gathered(
    Building,
    "building",
    click.option(
        "-o", "target", type=OutputFile(), required=True, help="An engine, or an ONNX model: .onnx."
    ),
    click.option(
        "--backend",
        type=click.Choice(["auto", "rtx", "enterprise"]),
        default="auto",
        help="TensorRT for RTX needs no GPU to build; enterprise TensorRT does.",
    ),
    click.option(
        "--tile",
        type=click.Choice(["broadcast", "native", "plugin"]),
        default="broadcast",
        help="How a Tile is done, as of cont: left out where a broadcast does the same, a slice that"
        " wraps, or a plugin, which TensorRT for RTX does not take.",
    ),
    click.option("--tf32", is_flag=True, help="Allow TF32: faster, but not Caffe's float32."),
    click.option(
        "--onnx-lstm", is_flag=True, help="Write ONNX's own LSTM where a recurrence is exactly that."
    ),
    click.option("--verify", is_flag=True, help="First compare what is written with our primitives."),
)
