"""How a net is checked before anything is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from prototrt.converter.commandline.options.groups import gathered
from prototrt.converter.commandline.options.parameter_types import ON, Ways

if TYPE_CHECKING:
    from prototrt.converter.verification.verify import Verification
    from prototrt.surgery.ir import Graph


@dataclass(frozen=True)
class Checking:
    """In which ways a net is computed, and what is compared."""

    ways: tuple[str, ...]
    inputs: str | None
    expect: str | None
    calls: int | None
    seed: int
    layers: bool

    def verify(self, graph: Graph, truth: Graph | None = None) -> Verification:
        from prototrt.converter.verification.verify import verify_files

        return verify_files(
            graph,
            self.ways,
            self.inputs,
            self.expect,
            calls=self.calls,
            seed=self.seed,
            layers=self.layers,
            truth=truth,
        )


check_options = gathered(
    Checking,
    "checking",
    click.option("--on", "ways", type=Ways(), default=("network",), help=f"Some of {', '.join(ON)}."),
    click.option("--inputs", metavar="FILE.npz", help="The inputs, as for run; otherwise they are invented."),
    click.option("--expect", metavar="FILE.npz", help="Outputs from elsewhere, which every way must give."),
    click.option(
        "--calls", type=click.IntRange(min=1), help="How many calls, each with the state of the last."
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the invented inputs."),
    click.option("--layers", is_flag=True, help="Compare every blob that is left, not the outputs alone."),
)
