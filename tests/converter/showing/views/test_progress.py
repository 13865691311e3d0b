"""Bars, and Ctrl-C while native code runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from prototrt.converter.front.commandline import progress
from prototrt.converter.front.commandline.progress import BuildProgress, terminal
from prototrt.tests.fresh_python import run_python


def build(progress: BuildProgress) -> list[bool]:
    progress.phase("Building", None, 2)
    progress.phase("Tactics", "Building", 3)
    goes_on = [progress.step("Tactics", step) for step in range(3)]
    progress.finish("Tactics")
    progress.finish("Building")
    return goes_on


INTERRUPTED = """
import signal
from prototrt.converter.front.commandline.progress import BuildProgress

signal.signal(signal.SIGINT, signal.default_int_handler)
answers = []
try:
    with BuildProgress(None) as progress:
        answers.append(progress.step("Building", 0))
        signal.raise_signal(signal.SIGINT)
        answers.append(progress.step("Building", 1))
        raise RuntimeError("the builder was cancelled")
except KeyboardInterrupt:
    is_restored = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print("interrupted", answers, is_restored)
"""
"""In a process of its own: other tests and libraries may have handlers of signals."""


def test_bars_are_drawn_on_a_terminal() -> None:
    screen = io.StringIO()
    with BuildProgress(Console(file=screen, force_terminal=True, width=80)) as progress:
        progress.phase("Building", None, 2)
        progress.step("Building", 0)
        assert build(progress) == [True, True, True]
    assert "Building" in screen.getvalue()


def test_nothing_is_drawn_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert terminal() is None
    with BuildProgress(None) as progress:
        assert build(progress) == [True, True, True]
    assert capsys.readouterr() == ("", "")


def test_interrupt_asks_the_builder_to_stop_and_is_raised_afterwards() -> None:
    assert run_python("-c", INTERRUPTED).stdout == "interrupted [True, False] True\n"


def test_an_error_of_the_builder_passes() -> None:
    with pytest.raises(RuntimeError, match="no memory"), BuildProgress(None):
        raise RuntimeError("no memory")


def test_a_bar_moves_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "terminal", lambda: console)
    with progress.bar(2, quiet=False) as advance:
        advance()
        advance()
    assert "2/2" in screen.getvalue()


def test_a_bar_begins_when_the_work_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "terminal", lambda: console)
    with progress.bar_of_parts(quiet=False) as started:
        assert screen.getvalue() == ""
        started(3)()
    assert "1/3" in screen.getvalue()


@pytest.mark.parametrize("quiet", [True, False])
def test_no_bar_is_drawn_without_a_terminal(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar(None, quiet) as advance:
        advance()
    assert capsys.readouterr() == ("", "")
