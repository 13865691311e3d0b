"""Limits that the system sets for one conversion: its CPU time, and the size of a file that it writes.

Memory is watched instead, see ``watch.py``.
"""

from __future__ import annotations

import errno
import math
import signal
import sys

from prototrt.converter.front.batch.entry import Entry, Status


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
