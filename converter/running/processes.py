"""Processes of our own: what they import, and that none outlives the one that started it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import prototrt

if TYPE_CHECKING:
    import subprocess

_PR_SET_PDEATHSIG = 1
"""Of Linux' ``sys/prctl.h``."""


def python_command(code: str, *arguments: str) -> list[str]:
    """A command for Python that imports what this process imports, and nothing that lies in the current folder.

    Its first statement sees to that, and reads no file: Python 3.10 has no variable that keeps the folder out.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = {[*_folders()]!r}; {code}", *arguments]


def _folders() -> Iterator[str]:
    """Where modules are, without the current folder. If this package lies in that, it comes last."""
    for folder in filter(None, sys.path):
        if not _is_current(Path(folder)):
            yield folder
    if prototrt.__file__ is not None and _is_current(home := Path(prototrt.__file__).parents[1]):
        yield str(home)


def _is_current(folder: Path) -> bool:
    try:
        return folder.samefile(os.curdir)
    except OSError:  # as of a zip file
        return False


def end_with(parent: int) -> None:
    """Let Linux end this process when the parent has ended, even while a library holds Python's lock.

    To Linux, the parent is the thread that started this process. The caller names the process, since it may have
    ended before anybody could ask.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started with ``start_new_session``, and all that it has started."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # nobody is left
        os.killpg(process.pid, signal.SIGKILL)
