"""How a plan is run: the options that nets have no use for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from prototrt.converter.commandline.options.groups import options
from prototrt.converter.commandline.options.parameter_types import OutputFile
from prototrt.converter.commandline.options.refusals import refuse_options_beside

if TYPE_CHECKING:
    from prototrt.converter.sessions.session import Session


@dataclass(frozen=True, slots=True)
class Running:
    """``runtime_cache`` is a file."""

    trust: bool
    runtime_cache: str | None

    def session(self, plan: str, *allowed: str) -> Session:
        """A session on a plan. ``allowed`` are the options of the command that make sense with one."""
        from prototrt.converter.sessions.session import Session

        refuse_options_beside(plan, "trust", "runtime_cache", "as_json", *allowed)
        return Session(plan, on="engine", cut=True, trust=self.trust, runtime_cache=self.runtime_cache)

    def refuse_for_net(self, model: str) -> None:
        """Raise ``UsageError`` if there are options for plans and the model is not a plan."""
        given = {"--trust": self.trust, "--runtime-cache": self.runtime_cache}
        for option, value in given.items():
            if value:
                raise click.UsageError(f"{option} is for plans, but {model} is not a plan")


running_options = options(
    click.option(
        "--trust", is_flag=True, help="Run a plan without a manifest, because you trust its author."
    ),
    click.option(
        "--runtime-cache",
        type=OutputFile(),
        help="Where TensorRT for RTX keeps kernels that it compiled for a plan. Without it: beside the plan.",
    ),
)
