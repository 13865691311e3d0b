"""What is seen of a batch while it runs: a bar on a terminal, a line for each model elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.converter.front.batch.entry import Outcome
from prototrt.converter.front.batch.runner import Listener
from prototrt.converter.front.commandline.printing import held_back, show, show_lines
from prototrt.converter.front.commandline.progress import terminal
from prototrt.converter.options import BatchProgress

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def display(quiet: bool) -> Iterator[BatchProgress]:
    """Shows the outcomes. Failures are reported on stderr, even if ``quiet``."""
    console = None if quiet else terminal()
    with ExitStack() as shown:
        yield (
            lambda total: (
                _Lines(total, quiet) if console is None else shown.enter_context(_bar(total, console))
            )
        )


@contextmanager
def _bar(total: int, console: Console) -> Iterator[Listener]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with held_back(), Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=total)

        def hear(outcome: Outcome) -> None:
            if not outcome.status.is_good:
                console.print(visible(_failure_line(outcome)), markup=False, highlight=False, emoji=False)
            bars.update(
                task, advance=1, description=visible_line(f"{outcome.entry.name}: {outcome.status.value}")
            )

        yield hear


class _Lines:
    """``[3/40] digits-loop: converted, 1.2 s``"""

    def __init__(self, total: int, quiet: bool) -> None:
        self._done = 0
        self._total = total
        self._quiet = quiet

    def __call__(self, outcome: Outcome) -> None:
        self._done += 1
        if not self._quiet:
            count = f"[{self._done:{len(str(self._total))}}/{self._total}]"
            line = f"{outcome.entry.name}: {outcome.status.value}, {outcome.seconds:.1f} s"
            show(f"{count} {line}", err=True)
        if not outcome.status.is_good:
            show_lines(_failure_line(outcome), err=True)


def _failure_line(outcome: Outcome) -> str:
    return f"{visible_line(outcome.entry.name)}: {outcome.status.value}: {outcome.message}"
