"""What a notebook shows: progress, while something takes long. Without a notebook, nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from prototrt.converter.options import Progress, Started, without_progress

_KERNEL = "ZMQInteractiveShell"
_SECONDS_BETWEEN = 0.1
"""Each showing is a message to the browser."""


def is_notebook() -> bool:
    """Whether this is the kernel of a notebook. IPython is asked only if it is there already."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == _KERNEL


def notebook_progress(what: str) -> Started:
    """A bar in a notebook that begins when it is known how much there is to do; nothing elsewhere."""
    if not is_notebook():
        return without_progress

    def start(parts: int | None) -> Callable[[], object]:
        shown, done, last = _Bar(what), 0, 0.0

        def advance() -> None:
            nonlocal done, last
            done += 1
            if done == parts or monotonic() - last > _SECONDS_BETWEEN:
                shown.show(done, parts)
                last = monotonic()

        shown.show(0, parts)
        return advance

    return start


def notebook_build() -> Progress | None:
    """A bar for the phases of the builder; None outside of a notebook."""
    return _BuildBar() if is_notebook() else None


class _Bar:
    """One line of a notebook's output, which is written over."""

    def __init__(self, what: str) -> None:
        import importlib

        shown: Any = importlib.import_module("IPython.display")
        self._html: Callable[[str], Any] = shown.HTML
        self._what = what
        self._handle: Any = shown.display(self._line(0, None), display_id=True)

    def show(self, done: int, parts: int | None, what: str | None = None) -> None:
        self._what = what or self._what
        self._handle.update(self._line(done, parts))

    def _line(self, done: int, parts: int | None) -> Any:
        import html

        value = "" if parts is None else f' value="{done}" max="{max(parts, 1)}"'
        count = f" {done}/{parts}" if parts is not None else f" {done}" if done else ""
        return self._html(f"<progress{value}></progress>{count} {html.escape(self._what)}")


class _BuildBar:
    """Hears the builder; the bar is for the phase that it is in."""

    def __init__(self) -> None:
        self._bar = _Bar("building the engine")
        self._steps: dict[str, int] = {}

    def phase(self, name: str, parent: str | None, steps: int) -> None:
        self._steps[name] = steps
        self._bar.show(0, steps, name)

    def step(self, name: str, step: int) -> bool:
        self._bar.show(step + 1, self._steps.get(name), name)
        return True

    def finish(self, name: str) -> None:
        steps = self._steps.pop(name, 1)
        self._bar.show(steps, steps, name)
