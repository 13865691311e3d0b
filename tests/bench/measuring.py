"""One measurement, one process: what a fresh interpreter needs, and its peak of memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Measurement = Mapping[str, Any]

_IMPORTS = Path(__file__).parents[2] / ".dev"
"""Where ``import prototrt`` finds this very tree."""


class Stopwatch:
    """Seconds since the process was started, and those spent in parts of its work.

    A part within a part does not count for the outer one.
    ``cpu`` holds the CPU time of all threads, which does not depend on other processes.
    """

    def __init__(self, started: float) -> None:
        self.started = started
        self.parts: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began, others = self._now(), self._sums()
        try:
            yield
        finally:
            within = [now - before for now, before in zip(self._sums(), others, strict=True)]
            wall, cpu = (
                now - before - inner for now, before, inner in zip(self._now(), began, within, strict=True)
            )
            self.parts[name] = self.parts.get(name, 0.0) + wall
            self.cpu[name] = self.cpu.get(name, 0.0) + cpu

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), time.process_time()

    def _sums(self) -> tuple[float, float]:
        return sum(self.parts.values()), sum(self.cpu.values())

    def timing(self, owner: Any, function: str, name: str) -> None:
        """From now on the calls of a function are a part."""
        original = getattr(owner, function)

        def timed(*arguments: Any, **options: Any) -> Any:
            with self.part(name):
                return original(*arguments, **options)

        setattr(owner, function, timed)

    def total(self) -> float:
        return time.monotonic() - self.started


def peak_rss() -> float:
    """The most memory this process has held so far, in MB: VmHWM of the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / 1e6
    raise AssertionError("the kernel does not tell")


def report(measurement: Measurement) -> None:
    """Hand a measurement to the process that asked for it."""
    print(json.dumps(measurement))


_warm: set[str] = set()
"""Scripts that have run before, so that all they import is compiled."""


def measured(script: str, *arguments: object, runs: int = 1, makes: Path | None = None) -> dict[str, Any]:
    """Run a script of this folder several times; the median of each number.

    What is installed is compiled already; a first run, which does not count, makes this tree so.
    The file that it ``makes`` is there afterwards, and removed before each run: to drop an old file
    takes as long as to write half of a new one.
    """
    if script not in _warm:
        _run(script, arguments, makes)
        _warm.add(script)
    return medians([_run(script, arguments, makes) for _ in range(runs)])


def _run(script: str, arguments: Sequence[object], makes: Path | None) -> Measurement:
    if makes is not None:
        makes.unlink(missing_ok=True)
    path = Path(__file__).with_name(f"{script}.py")
    # All processes use the same clock, so starting Python also counts.
    command = [sys.executable, str(path), str(time.monotonic()), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(_IMPORTS)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    os.sync()  # what earlier runs have written is not to slow this one down
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    found: Measurement = json.loads(done.stdout.splitlines()[-1])
    return found


def medians(found: Sequence[Measurement]) -> dict[str, Any]:
    """The median of each number. Other values are those of the first run."""
    return {key: _median([one[key] for one in found]) for key in found[0]}


def _median(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        return medians(values)
    is_number = isinstance(values[0], (int, float)) and not isinstance(values[0], bool)
    return statistics.median(values) if is_number else values[0]


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns of text, the first one to the left and the others to the right."""
    cells = [list(headers), *([_cell(item) for item in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(_line(row, widths) for row in cells)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()


def _cell(item: object) -> str:
    if isinstance(item, bool):
        return "met" if item else "MISSED"
    if not isinstance(item, (int, float)):
        return str(item)
    return f"{item:.3g}" if isinstance(item, float) and abs(item) < 100 else f"{item:,.0f}"
