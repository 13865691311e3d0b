"""Ending a command that must tidy up first, when it is asked to end by a signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


_REPEATED = 1.0
"""Seconds within which a second signal is the first one again: from the terminal, and from whoever passes it on."""


class Interrupt:
    """A handler of Ctrl-C that raises KeyboardInterrupt, but not a second time while the command tidies up."""

    def __init__(self) -> None:
        self._last = float("-inf")

    @property
    def has_come(self) -> bool:
        return self._last > float("-inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        before, self._last = self._last, time.monotonic()
        if self._last - before > _REPEATED:
            raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether Ctrl-C has come. Libraries in C turn its KeyboardInterrupt into errors of their own."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, Interrupt) and handler.has_come


class StopRequest(KeyboardInterrupt):
    """Somebody asked the process to end; ``signal`` says how."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block, SIGTERM and SIGHUP raise ``StopRequest``, once. One that is ignored (``nohup``) stays so."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise StopRequest(number)

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    before = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
