"""What a user sees while work goes on, and how Ctrl-C reaches the builder."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.front.commandline.printing import held_back

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from prototrt.converter.options import Started


class BuildProgress:
    """Bars for the builder's phases, drawn on ``console``; none when there is no console.

    The builder is native code: raising KeyboardInterrupt inside it would leave it in an
    unknown state. So Ctrl-C only makes the next ``step`` answer False, the builder stops
    by itself, and leaving the block raises KeyboardInterrupt.
    """

    def __init__(self, console: Console | None) -> None:
        self.cancelled = False
        self._bars = bars_on(console) if console else None
        self._drawn = ExitStack()
        self._tasks: dict[str, TaskID] = {}
        self._before: object = None

    def __enter__(self) -> BuildProgress:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._cancel)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drawn.close()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]  # what signal() gave us
        if self.cancelled:
            raise KeyboardInterrupt from error

    def phase(self, name: str, parent: str | None, steps: int) -> None:
        """The builder begins a phase, or begins it again with another number of steps."""
        if self._bars:
            if not self._bars.live.is_started:
                self._drawn.enter_context(held_back())
                self._drawn.enter_context(self._bars)
            indent = "  " if parent else ""
            self._tasks[name] = self._bars.add_task(indent + visible_line(name), total=steps)

    def step(self, name: str, step: int) -> bool:
        """The builder has done a step; False asks it to stop."""
        if self._bars and name in self._tasks:
            self._bars.update(self._tasks[name], completed=step + 1)
        return not self.cancelled

    def finish(self, name: str) -> None:
        """The builder has ended a phase."""
        if self._bars and name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))

    def _cancel(self, number: int, frame: FrameType | None) -> None:
        self.cancelled = True


def terminal() -> Console | None:
    """The terminal that bars can be drawn on, or None: bars do not belong in a log file."""
    if sys.stderr is None or not sys.stderr.isatty():  # None where the user has closed it
        return None
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def bar(total: int | None, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar on the terminal, and what moves it on by one; the total may be unknown."""
    console = None if quiet else terminal()
    if console is None:
        yield lambda: None
        return
    with held_back(), bars_on(console) as bars:
        task = bars.add_task("", total=total)
        yield lambda: bars.advance(task)


@contextmanager
def bar_of_parts(quiet: bool) -> Iterator[Started]:
    """A bar that begins when it is known how much there is to do, and ends with the block."""
    with ExitStack() as stack:
        yield lambda parts: stack.enter_context(bar(parts, quiet))


def bars_on(console: Console, *, name_is_last: bool = False) -> Progress:
    """Bars with the numbers of parts and the time; a name that changes is last."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    # Phases may be called as layers are: [red] is a name.
    name = TextColumn("{task.description}", markup=False)
    numbers = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    columns = (*numbers, name) if name_is_last else (name, *numbers)
    return Progress(*columns, console=console, transient=True)
