"""What is seen of a batch while it runs: a bar on a terminal, a line for each model elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.converter.front.batch.entry import Outcome
from prototrt.converter.front.batch.runner import Listener
from prototrt.converter.front.commandline.printing import held_back, show, show_lines
from prototrt.converter.front.commandline.progress import bars_on, terminal
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
                _lines(total, quiet) if console is None else shown.enter_context(_bar(total, console))
            )
        )


@contextmanager
def _bar(total: int, console: Console) -> Iterator[Listener]:
    with held_back(), bars_on(console, name_is_last=True) as bars:
        task = bars.add_task("", total=total)

        def hear(outcome: Outcome) -> None:
            if not outcome.status.is_good:
                console.print(visible(_failure_line(outcome)), markup=False, highlight=False, emoji=False)
            bars.update(
                task, advance=1, description=visible_line(f"{outcome.entry.name}: {outcome.status.value}")
            )

        yield hear


def _lines(total: int, quiet: bool) -> Listener:
    """``[3/40] digits-loop: converted, 1.2 s``"""
    numbers = itertools.count(1)

    def hear(outcome: Outcome) -> None:
        count = f"[{next(numbers):{len(str(total))}}/{total}]"
        if not quiet:
            show(f"{count} {outcome.entry.name}: {outcome.status.value}, {outcome.seconds:.1f} s", err=True)
        if not outcome.status.is_good:
            show_lines(_failure_line(outcome), err=True)

    return hear


def _failure_line(outcome: Outcome) -> str:
    return f"{visible_line(outcome.entry.name)}: {outcome.status.value}: {outcome.message}"
