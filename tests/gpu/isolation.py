"""Checks in a process of their own: a crash, or a GPU that hangs, costs one row and not the table."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from queue import Empty, Queue

from prototrt.tests.gpu.rows import Check, Row, tried

_MARK = "prototrt check: "
"""Begins the lines for the parent: TensorRT may print lines as well."""
_DYING = 10.0
"""Seconds that a killed process may take to end, before it is left alone."""


def serve(checks: Iterable[Check], skip: int) -> None:
    """Try the checks behind the first ``skip``, and tell the parent of each before and after."""
    for check in islice(checks, skip, None):
        _tell("begins", check.what)
        row = tried(check)
        _tell("row", row.what, row.verdict, *row.details)
    _tell("end")


def _tell(*words: str) -> None:
    print(_MARK + json.dumps(words), flush=True)


def isolated(command: Sequence[str], patience: float) -> Iterator[Row]:
    """The rows of a command that serves checks; it is started anew behind a check that kills it.

    ``command`` is given the number of checks to skip as its last argument. ``patience`` are the
    seconds that one check may take.
    """
    done = 0
    while True:
        child, before = _Child([*command, str(done)], patience), done
        for row in child.rows():
            done += 1
            yield row
        if child.has_ended:
            return
        yield Row(child.trying or "between two checks", "CRASHED", (child.reason,))
        if child.trying is not None:
            done += 1
        elif done == before:  # it would stop at the same place the next time
            return


@dataclass
class _Child:
    command: Sequence[str]
    patience: float
    trying: str | None = None
    has_ended: bool = False
    reason: str = ""

    def rows(self) -> Iterator[Row]:
        # Not by ``with``, which waits for ever for a process that the driver of a GPU holds.
        process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        try:
            for kind, *words in self._told(process):
                self.has_ended = kind == "end"
                self.trying = words[0] if kind == "begins" else None
                if kind == "row":
                    what, verdict, *details = words
                    yield Row(what, verdict, tuple(details))
            status = process.wait(self.patience)
            self.reason = self.reason or f"its process ended with status {status}"
        except (Empty, subprocess.TimeoutExpired):
            self.reason = f"it took more than {self.patience:g} s"
        finally:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_DYING)

    def _told(self, process: subprocess.Popen[str]) -> Iterator[list[str]]:
        """What the child tells, as long as it tells something now and then."""
        lines: Queue[str | None] = Queue()
        threading.Thread(target=_read, args=(process, lines.put), daemon=True).start()
        while (line := lines.get(timeout=self.patience)) is not None:
            if line.startswith(_MARK):
                yield json.loads(line[len(_MARK) :])
            else:
                print(line, end="", file=sys.stderr)


def _read(process: subprocess.Popen[str], put: Callable[[str | None], None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            put(line)
    put(None)
