"""One measurement, one process: what a fresh interpreter needs, and its peak of memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
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
    """Run a script of this folder several times; the least of each number.

    What is installed is compiled already; a first run, which does not count, makes this tree so.
    The file that it ``makes`` is there afterwards, and removed before each run: to drop an old file
    takes as long as to write half of a new one.
    """
    if script not in _warm:
        _run(script, arguments, makes)
        _warm.add(script)
    return minima([_run(script, arguments, makes) for _ in range(runs)])


def _run(script: str, arguments: Sequence[object], makes: Path | None) -> Measurement:
    if makes is not None:
        makes.unlink(missing_ok=True)
    path = Path(__file__).with_name(f"{script}.py")
    # All processes use the same clock, so starting Python also counts.
    command = [sys.executable, str(path), str(time.monotonic()), *map(str, arguments)]
    os.sync()  # what earlier runs have written is not to slow this one down
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    _refuse_failure(command, done.returncode, done.stderr)
    found: Measurement = json.loads(done.stdout.splitlines()[-1])
    return found


def minima(found: Sequence[Measurement]) -> dict[str, Any]:
    """The least of each number. Other values are those of the first run."""
    return {key: _least([one[key] for one in found]) for key in found[0]}


def _least(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        return minima(values)
    is_number = isinstance(values[0], (int, float)) and not isinstance(values[0], bool)
    return min(values) if is_number else values[0]


def processes(
    commands: Mapping[str, Sequence[object]], makes: Path, runs: int
) -> dict[str, dict[str, float]]:
    """Whole processes of Python in alternation: the least CPU seconds and peak of memory in MB of each."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for _ in range(runs + 1):  # the first compiles what is imported
        for name, arguments in commands.items():
            makes.unlink(missing_ok=True)
            makes.with_name(f"{makes.name}.json").unlink(missing_ok=True)
            with tempfile.TemporaryFile() as errors:
                process = subprocess.Popen(
                    [sys.executable, *map(str, arguments)],
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=_environment(),
                )
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                errors.seek(0)
                _refuse_failure([name], process.returncode, errors.read().decode())
            found[name].append({"cpu": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss * 1024 / 1e6})
    return {name: minima(each[1:]) for name, each in found.items()}


def _environment() -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(_IMPORTS)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _refuse_failure(command: Sequence[str], code: int, errors: str) -> None:
    """A net of which prototrt says that it may be another than was meant is not measured."""
    if code or "ConversionWarning" in errors or "warning:" in errors:
        raise RuntimeError(f"{' '.join(command)} failed:\n{errors}")


@contextmanager
def fast_folder(folder: Path) -> Iterator[Path]:
    """A new folder in memory where there is room for the largest plan, else this one."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < _LARGEST_PLAN:
        yield folder
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="prototrt-bench-") as name:
        yield Path(name)


_LARGEST_PLAN = 1 << 30


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
