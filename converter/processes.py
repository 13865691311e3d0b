"""Processes that do not outlive the one that started them, nor are outlived by those that they start."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_PR_SET_PDEATHSIG = 1
"""Of Linux' ``sys/prctl.h``."""


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
