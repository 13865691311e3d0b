"""At which stage of its way to a backend a net is shown, and after which passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from prototrt.converter.front.commandline.options.parameter_types import ShownType
from prototrt.converter.front.commandline.printing import show, show_lines
from prototrt.converter.showing.views.stages import ShownStage
from prototrt.surgery.options import OF_THE_NET, RewriteOptions

if TYPE_CHECKING:
    from prototrt.surgery.ir import Graph
    from prototrt.surgery.runner import Pass, PassList

ALL = "all"


def is_on_command_line(name: str) -> bool:
    """Whether the user gave this option to the command that runs."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_idle_reader(stage: ShownStage) -> None:
    if stage.name != "lowered" and is_on_command_line("reader") and not is_on_command_line("print_after"):
        raise click.UsageError("--for is for --stage lowered")


def refuse_rewriting_options() -> None:
    """The table of layers shows the net as it is written: how it is rewritten changes nothing in it."""
    rewriting = {field.name for field in fields(RewriteOptions)} - set(OF_THE_NET)
    for parameter in click.get_current_context().command.params:
        name = parameter.name or ""
        if name in rewriting and is_on_command_line(name):
            raise click.UsageError(
                f"{parameter.opts[0]} is for --stage rewritten, --stage lowered or --print-after"
            )


class PassName(ShownType):
    """The name of a pass, or ``all``."""

    name = "PASS|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from prototrt.caffe_proto.common.suggestions import choices
        from prototrt.surgery.pipeline import pass_names

        if value != ALL and value not in pass_names():
            self.fail(f'there is no pass "{value}": use {choices(value, [*pass_names(), ALL])}', param, ctx)
        return str(value)


print_after_option = click.option(
    "--print-after",
    multiple=True,
    type=PassName(),
    help="Print the graph after this pass, or after each pass that changes it; repeatable.",
)


@contextmanager
def print_graphs_after(names: Sequence[str]) -> Iterator[None]:
    """Print the graph after these passes, each time that one is run for another purpose."""
    if not names:
        yield
        return
    from prototrt.surgery.runner import observe_passes

    runs: Counter[tuple[str, str]] = Counter()

    def print_graph(of: PassList, change: Pass, graph: Graph, is_changed: bool) -> None:
        name = change.__name__
        runs[of.name, name] += 1
        is_due = name in names or (ALL in names and is_changed)
        in_list = [each.__name__ for each in of.passes].count(name)
        if is_due and runs[of.name, name] <= in_list:  # to verify a net, it is lowered a second time
            show(f"# after {name} ({of.name}){'' if is_changed else ', which changed nothing'}")
            show_lines(graph.text())

    with observe_passes(print_graph):
        yield
    for name in sorted({*names} - {ALL} - {name for _, name in runs}):
        show(f"# {name} did not run in this conversion")
