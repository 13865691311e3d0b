"""The line that says that a command works, where nothing else on the terminal does."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from prototrt.converter.front.commandline import batch_display as display
from prototrt.converter.front.commandline import progress
from prototrt.converter.front.commandline.logs import Handler
from prototrt.converter.front.commandline.printing import WaitingLine, _lines, show, show_waiting

ROOT = Path(__file__).parents[4]
DIGITS = ROOT / "samples" / "digits"
ERASED = "\r\x1b[2K"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> tuple[Screen, Callable[[], None]]:
    """A terminal, and what draws the line on it. Not a fixture: pytest replaces stderr after those."""
    screen = Screen()
    line = WaitingLine("run", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("prototrt.converter.front.commandline.printing._lines", [line])
    return screen, line.draw


def test_the_line_is_redrawn_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, draw = terminal_of(monkeypatch)
    draw()
    draw()
    assert screen.getvalue() == f"{ERASED}| run: working for 0 s{ERASED}/ run: working for 0 s"


def test_what_is_printed_erases_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, draw = terminal_of(monkeypatch)
    show("before", err=True)
    draw()
    show("after", err=True)
    logging.getLogger("of this test").addHandler(Handler())
    draw()
    logging.getLogger("of this test").warning("told")
    assert screen.getvalue() == (
        f"before\n{ERASED}| run: working for 0 s{ERASED}after\n{ERASED}/ run: working for 0 s{ERASED}told\n"
    )


@pytest.mark.parametrize("shown", ["bar", "builder", "batch"])
def test_bars_hold_the_line_back(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, draw = terminal_of(monkeypatch)
    console = Console(file=io.StringIO(), force_terminal=True)
    for module in (progress, display):
        monkeypatch.setattr(module, "terminal", lambda: console)

    @contextlib.contextmanager
    def batch() -> Iterator[object]:
        with display.display(quiet=False) as begun:
            yield begun(2)

    bars: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "bar": lambda: progress.bar(2, quiet=False),
        "batch": batch,
        "builder": lambda: progress.BuildProgress(console),
    }
    with bars[shown]() as block:
        if isinstance(block, progress.BuildProgress):
            draw()  # the builder has not begun yet
            block.phase("Building", None, 1)
            assert screen.getvalue() == f"{ERASED}| run: working for 0 s{ERASED}"
            screen.truncate(0)
        draw()
        assert screen.getvalue().strip("\0") == ""
    draw()
    assert "working" in screen.getvalue()


def test_nothing_is_drawn_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with show_waiting("run"):
        assert _lines == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs terminals as POSIX has them")
def test_a_long_command_tells_that_it_works_and_leaves_a_clean_terminal(tmp_path: Path) -> None:
    """A minute of work, of which it does half a second."""
    ours, theirs = os.openpty()
    every_call = {"data": np.zeros((1, 1, 32, 16), np.float32), "cont": np.ones((1, 1), np.float32)}
    np.savez(tmp_path / "in.npz", **every_call)  # type: ignore[arg-type]  # NumPy's third argument is a flag
    inputs = ["--inputs", str(tmp_path / "in.npz"), "--calls", "10000"]
    net = [str(DIGITS / "deploy_stream.prototxt"), str(DIGITS / "digits.caffemodel")]
    process = subprocess.Popen(
        [sys.executable, "-m", "prototrt", "run", *net, *inputs, "-o", os.devnull],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".dev"), "TERM": "xterm"},
        stderr=theirs,
        start_new_session=True,
        # A shell's background process, and what it starts, inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    seen = b""
    while b"run: working for" not in seen:
        seen += os.read(ours, 1024)
    os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(OSError):  # the end of a terminal that nobody writes to any more
        while more := os.read(ours, 1024):
            seen += more
    assert process.wait() == 130
    left = seen.rpartition(b"working for")[2]
    assert ERASED.encode() in left
    assert b"stopped\r\n" in left, seen
    os.close(ours)
