"""Checks in a process of their own: a crash, or a GPU that hangs, costs one row and not the table."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from queue import Empty, Queue
from typing import IO

from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.checking.selftest.privacy import anonymous
from prototrt.converter.checking.selftest.rows import CRASHED, Check, Row, row_of

_MARK = "prototrt check: "
"""Begins the lines for the parent: TensorRT may print lines as well."""
_SECONDS_TO_DIE = 10.0
"""For a killed process, before it is left alone."""
_LAST_BYTES, _LONGEST = 2_000, 200
"""What is read of the end of a dead process's stderr, and the letters of it that a row shows."""


def serve(checks: Iterable[Check], skip: int) -> None:
    """Try the checks behind the first ``skip``, and tell the parent of each before and after."""
    for check in islice(checks, skip, None):
        _tell("begins", check.what)
        row = row_of(check)
        _tell("row", row.what, row.verdict, *row.details)
    _tell("end")


def _tell(*words: str) -> None:
    print(_MARK + json.dumps(words), flush=True)


def run_isolated(command: Sequence[str], patience: float, deadline: float) -> Iterator[Row]:
    """The rows of a command that serves checks; it is started anew behind a check that kills it.

    ``command`` gets the number of checks to skip as its last argument. One check may take ``patience`` seconds, and
    none longer than until the ``deadline`` of ``time.monotonic``.
    """
    done = 0
    while True:
        child, before = _Child([*command, str(done)], patience, deadline), done
        for row in child.rows():
            done += 1
            yield row
        if child.has_ended:
            return
        yield Row(child.current or "between two checks", CRASHED, (child.reason,))
        if child.current is not None:
            done += 1
        elif done == before:  # it would stop at the same place the next time
            return


@dataclass
class _Child:
    command: Sequence[str]
    patience: float
    deadline: float
    current: str | None = None
    """The check that has begun."""
    has_ended: bool = False
    reason: str = ""

    def rows(self) -> Iterator[Row]:
        with tempfile.TemporaryFile() as stderr:
            # The process is not a context: that would wait for ever for one that the driver of a GPU holds.
            process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=stderr, text=True)
            try:
                for kind, *words in self._messages(process):
                    self.has_ended = kind == "end"
                    self.current = words[0] if kind == "begins" else None
                    if kind == "row":
                        what, verdict, *details = words
                        yield Row(what, verdict, tuple(details))
                status = process.wait(self._seconds_left())
                self.reason = f"its process ended with status {status}{_last_line(stderr)}"
            except (Empty, subprocess.TimeoutExpired):
                self.reason = f"it took more than {self._allowed:.0f} s"
            finally:
                process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_DIE)

    def _seconds_left(self) -> float:
        self._allowed = max(min(self.patience, self.deadline - time.monotonic()), 0.0)
        return self._allowed

    def _messages(self, process: subprocess.Popen[str]) -> Iterator[list[str]]:
        """What the child says, as long as it says something now and then."""
        lines: Queue[str | None] = Queue()
        threading.Thread(target=_read, args=(process, lines.put), daemon=True).start()
        while (line := lines.get(timeout=self._seconds_left())) is not None:
            if line.startswith(_MARK):
                yield json.loads(line[len(_MARK) :])


def _last_line(stderr: IO[bytes]) -> str:
    """The end of what a dead process wrote, such as TensorRT's last message."""
    stderr.seek(max(stderr.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
    lines = stderr.read().decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {anonymous(last)[:_LONGEST]}" if last else ""


def _read(process: subprocess.Popen[str], put: Callable[[str | None], None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            put(line)
    put(None)
