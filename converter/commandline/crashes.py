"""Crashes of native libraries, reported as crashes.

The command runs in a child process that is forked before anything is imported, which takes a millisecond.
Source of the need: TensorRT for RTX 1.7.1 ends the process for some networks.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from prototrt.converter import black_box
from prototrt.converter.commandline.terminal import show

_EXIT_CODE = 4
_CRASHES = {
    signal.SIGABRT: "aborted",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
    signal.SIGKILL: "killed: most likely memory ran out",
    signal.SIGSEGV: "segmentation fault",
}
_FORWARDED = (signal.SIGTERM, signal.SIGHUP)


def survive(command: Callable[[], None]) -> None:
    """Run the command in a child process, and end as it ends; a crash is reported, with exit code 4.

    Ctrl-C reaches both processes, and the child answers it.
    """
    if not hasattr(os, "fork"):
        command()
        return
    black_box.share()
    # A signal that comes too early waits until there is a handler for it.
    signals = {signal.SIGINT, *_FORWARDED}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        command()
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in _FORWARDED:
        signal.signal(each, lambda number, frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
    sys.exit(_after(signal.Signals(os.WTERMSIG(status))))


def _after(ended_by: signal.Signals) -> int:
    """Tell what ended the command; the exit code."""
    if black_box.file():
        Path(black_box.file()).unlink(missing_ok=True)
    if ended_by not in _CRASHES:  # somebody asked for it
        return 128 + ended_by
    task = black_box.task()
    where = f" while {task}" if task else ""
    show(f"error: the command crashed{where} ({_CRASHES[ended_by]})", err=True)
    show(
        "  fix: write an ONNX model instead (-o FILE.onnx), or try another release of TensorRT;"
        " -v shows TensorRT's log",
        err=True,
    )
    return _EXIT_CODE
