"""Everything that needs a GPU, in one run of some minutes: prints tables in Markdown, row by row.

    PYTHONPATH=.dev python tests/gpu/check.py --budget 540 > results.md

Needs cuda-python and a TensorRT that runs on this GPU; PyTorch for the comparison with cuDNN, and
CuPy, PyCUDA and enterprise TensorRT for what concerns them: without them the table says "not tried".
Each section runs in a process of its own, which is started anew behind a check that kills it. What
fails is a row; the exit code is 1 then. docs/gpu-results.md is made of what this prints.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import prototrt
from prototrt.converter.machines.doctor import Diagnosis, diagnose
from prototrt.converter.runtime.cuda_python import CudaPythonDevice
from prototrt.surgery.ir import Graph
from prototrt.tests.gpu import engines, floors, goldens, kernels, libraries, sessions, speed, stand_in
from prototrt.tests.gpu.isolation import isolated, serve
from prototrt.tests.gpu.rows import BAD, Check, Row
from prototrt.tests.gpu.sessions import SessionOf
from prototrt.tests.gpu.timing import Stopwatch, clocks

CHECK = ("check", "verdict", "")
PATIENCE = 180.0
"""Seconds for one check: TensorRT for RTX compiles an engine when it is first loaded."""
BUDGET = 3600.0
"""Seconds for all of it."""


@dataclass(frozen=True)
class Section:
    """Checks that share a process and a table; they are given what makes sessions."""

    checks: Callable[[SessionOf], Iterator[Check]]
    columns: Sequence[str] = CHECK
    needs_engine: bool = False


def _stopwatch() -> Stopwatch:
    return Stopwatch(CudaPythonDevice())


SECTIONS = {
    # Ordered by importance, for those who have only ten minutes on a GPU.
    "backends": Section(lambda session_of: engines.backends()),
    "stand-in": Section(lambda session_of: stand_in.stand_in()),
    "floors": Section(lambda session_of: floors.floors(_stopwatch), floors.COLUMNS),
    "kernels": Section(lambda session_of: kernels.kernels()),
    "sample": Section(goldens.sample, needs_engine=True),
    "replays": Section(engines.replays, needs_engine=True),
    "speed": Section(
        lambda session_of: speed.timings(session_of, _stopwatch), speed.COLUMNS, needs_engine=True
    ),
    "sessions": Section(sessions.sessions, needs_engine=True),
    "libraries": Section(libraries.libraries, needs_engine=True),
    "profiles": Section(engines.profiles, needs_engine=True),
    "verify": Section(lambda session_of: goldens.verification(), needs_engine=True),
    "goldens": Section(goldens.goldens, needs_engine=True),
    "plugins": Section(lambda session_of: engines.plugins(), needs_engine=True),
    "pycuda": Section(libraries.pycuda, needs_engine=True),
}
FIRST = "backends"
"""Loads the first engine: where none loads, nothing that needs one is tried."""


def engine_session(graph: Graph, **options: object) -> prototrt.Session:
    return prototrt.Session(graph, on="engine", **options)  # type: ignore[arg-type]  # they are Session's


# ---------------------------------------------------------------- the report


def report(names: Sequence[str], rows_of: Callable[[str, float], Iterable[Row]], budget: float) -> int:
    """Print a table for each section, row by row, as long as there is time; the exit code.

    ``rows_of`` is given a section and the seconds that are left of the ``budget``.
    """
    verdicts: Counter[str] = Counter()
    deadline = time.monotonic() + budget
    no_engine_loads = False
    for name in names:
        print(f"## {name}\n")
        here: Counter[str] = Counter()
        left = deadline - time.monotonic()
        if SECTIONS[name].needs_engine and no_engine_loads:
            here["not tried"] += 1
            print("not tried: no engine loads here, see backends")
        elif left <= 0:
            here["not tried"] += 1
            print(f"not tried: the budget of {budget:g} s is spent")
        else:
            rows = until(deadline, rows_of(name, left), budget)
            for line in markdown(SECTIONS[name].columns, counted(rows, here)):
                print(line, flush=True)
        print(flush=True)
        no_engine_loads |= name == FIRST and not here["ok"]
        verdicts += here
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or "nothing to try")
    return int(any(verdicts[verdict] for verdict in BAD))


def until(deadline: float, rows: Iterable[Row], budget: float) -> Iterator[Row]:
    """The rows, as long as there is time."""
    for row in rows:
        yield row
        if time.monotonic() > deadline:
            yield Row("the rest", "not tried", (f"the budget of {budget:g} s is spent",))
            return


def counted(rows: Iterable[Row], verdicts: Counter[str]) -> Iterator[Sequence[str]]:
    for row in rows:
        verdicts[row.verdict] += 1
        yield row.cells


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, each as soon as its row is there."""
    yield markdown_line(columns)
    yield markdown_line(["---"] * len(columns))
    for row in rows:
        yield markdown_line([*row, *[""] * (len(columns) - len(row))])


def markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def machine(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    facts = [("python", diagnosis.python), ("driver", str(diagnosis.driver))]
    facts += [(name, version) for name, version in diagnosis.packages.items() if version]
    facts.append(("clocks", clocks()))
    return facts + [("GPU", f"{gpu.name}, compute capability {gpu.capability}") for gpu in diagnosis.gpus]


# ---------------------------------------------------------------- the command


def selected(text: str) -> list[str]:
    """``goldens,speed`` in the order of the sections."""
    names = text.split(",")
    unknown = sorted(set(names) - set(SECTIONS))
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no section {', '.join(unknown)}: expected some of {', '.join(SECTIONS)}"
        )
    return [name for name in SECTIONS if name in names]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Try everything that needs a GPU.")
    made.add_argument(
        "--only", type=selected, default=list(SECTIONS), metavar="SECTION,...", help="Some of it."
    )
    made.add_argument("--list", action="store_true", help="Tell what would be tried, and try nothing.")
    made.add_argument("--patience", type=float, default=PATIENCE, metavar="SECONDS", help="For one check.")
    made.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS", help="For all of it.")
    made.add_argument("--serve", nargs=2, metavar=("SECTION", "SKIP"), help=argparse.SUPPRESS)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.serve:
        name, skip = options.serve
        serve(SECTIONS[name].checks(engine_session), int(skip))
        return 0
    if options.list:
        print(*(f"{name}: {what}" for name in options.only for what in contents(name)), sep="\n")
        return 0
    diagnosis = diagnose()
    if not diagnosis.gpus:
        print("there is no GPU here: nothing was checked", file=sys.stderr)
        return 1
    print(*markdown(("machine", ""), machine(diagnosis)), "", sep="\n")
    command = [sys.executable, __file__, "--serve"]

    def rows_of(name: str, left: float) -> Iterator[Row]:
        return isolated([*command, name], min(options.patience, left))

    return report(options.only, rows_of, options.budget)


def contents(name: str) -> Iterator[str]:
    return (check.what for check in SECTIONS[name].checks(engine_session))


if __name__ == "__main__":
    sys.exit(main())
