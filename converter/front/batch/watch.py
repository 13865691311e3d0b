"""Ending a process that takes too long or too much.

The system limits its CPU time, and the size of a file that it writes. Memory is watched: a library that is refused some
may wait for ever.
"""

from __future__ import annotations

import errno
import math
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from prototrt.converter.front.batch.entry import Entry, Status
from prototrt.converter.running.processes import kill_with_children

_SECONDS_BETWEEN_LOOKS = 0.05
_ANONYMOUS = re.compile(r"^RssAnon:\s+(\d+) kB$", re.MULTILINE)


def memory_of(pid: int) -> int | None:
    """Bytes that a process has for itself, without the files it maps; None where that is not known."""
    try:
        match = _ANONYMOUS.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


class Watch:
    """Looks at a process until ``stop``; ``verdict`` is what it was killed for."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float | None, memory: int | None) -> None:
        self.verdict: Status | None = None
        self._process = process
        self._end = None if seconds is None else time.monotonic() + seconds
        self._memory = memory
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        if seconds is not None or memory is not None:
            self._thread.start()

    def stop(self) -> None:
        """Not one moment later: the process may have the next model already."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        while not self._stopped.wait(_SECONDS_BETWEEN_LOOKS):
            self.verdict = self._current_verdict()
            if self.verdict or self._process.poll() is not None:
                kill_with_children(self._process)  # one that lives on would keep the pipe to us open
                return

    def _current_verdict(self) -> Status | None:
        if self._end is not None and time.monotonic() > self._end:
            return Status.TIMED_OUT
        if self._memory is not None and (memory_of(self._process.pid) or 0) > self._memory:
            return Status.OUT_OF_MEMORY
        return None


def set_limits(entry: Entry) -> None:
    """Let the system end this process at the limits of the entry. Called before any file of it is read."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime + entry.cpu_time
    limits_by_kind = {
        resource.RLIMIT_CPU: math.ceil(seconds),
        resource.RLIMIT_FSIZE: entry.file_size,
        resource.RLIMIT_CORE: 0,
    }
    for limit, most in limits_by_kind.items():
        _, hard = resource.getrlimit(limit)
        # Only the soft limit: the next entry of this process may have a higher one.
        resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def death_at_limit(entry: Entry, returncode: int) -> tuple[Status, str] | None:
    """What to say where the system has ended the process of an entry at a limit; None if it has not."""
    if sys.platform != "win32" and returncode == -signal.SIGXCPU:
        return (
            Status.TIMED_OUT,
            f"it took more than {entry.cpu_time:g} s of CPU time\n  fix: raise its cpu-time in {entry.where}",
        )
    return None


def too_large_a_file(entry: Entry, error: BaseException | None) -> str | None:
    """What to say where an error comes from the limit of file sizes; None if it does not."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return (
                f"it would write a file of more than {entry.file_size / 1e6:,.0f} MB\n"
                f"  fix: raise its file-size in {entry.where}"
            )
        error = error.__cause__
    return None
