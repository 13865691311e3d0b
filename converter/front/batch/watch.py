"""Ending a process that takes too long or too much memory.

Not by the system's own limit on memory: a library that is refused some may wait for ever.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

from prototrt.converter.front.batch.entry import Status
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
