"""Try on this machine what prototrt does: each section in a process of its own, within a budget of time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from prototrt import __version__
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import narrow
from prototrt.converter.checking.selftest.goldens import unpack
from prototrt.converter.checking.selftest.isolation import run_isolated
from prototrt.converter.checking.selftest.results import SectionResult, SelfTest
from prototrt.converter.checking.selftest.rows import BAD, NOT_TRIED, OK, Row
from prototrt.converter.checking.selftest.sections import GPU, SECTIONS, command_of
from prototrt.converter.options import SECTION_NAMES, SectionName

BUDGET = 280.0
"""Seconds for all of it."""
PATIENCE = 60.0
"""Seconds for one check: TensorRT for RTX compiles an engine when it is first loaded."""
_SHARE = 0.5
"""Of the time that is left, which a section may take: none uses up the time of all later ones."""

Listener: TypeAlias = Callable[[str], object]
"""Hears which section begins, and what it is for; or why it is not tried."""


def selftest(
    only: Sequence[SectionName] = (),
    budget: float | None = None,
    begun: Listener = lambda line: None,
) -> SelfTest:
    """Try the sections, those that are named or all. The machine is always looked at."""
    for each in only:
        narrow("only", each, SECTION_NAMES)
    seconds = BUDGET if budget is None else budget
    if not seconds > 0:
        raise OptionsError(f"budget is {seconds:g}, expected more than 0 seconds", fix=f"give {BUDGET:g}")
    start = time.monotonic()
    results: dict[str, SectionResult] = {}
    with tempfile.TemporaryDirectory(prefix="prototrt-selftest-") as name:
        folder = Path(name)
        unpack(folder)
        for section in SECTION_NAMES:
            if section in only or not only or section == "machine":
                purpose, reason = SECTIONS[section].purpose, _obstacle(section, results)
                would = f"not tried, {reason}; it would " if reason else ""
                begun(f"{section}: {would}{purpose}")
                results[section] = _result(section, folder, start + seconds, reason)
    return SelfTest(__version__, tuple(results.values()), time.monotonic() - start)


def _obstacle(name: SectionName, before: dict[str, SectionResult]) -> str | None:
    """Why a section is not tried. Where a section crashed that would know, it is tried."""
    if not SECTIONS[name].needs_engine:
        return None
    machine = before["machine"].rows
    if not any(row.what.startswith(GPU) or row.verdict in BAD for row in machine):
        return "there is no GPU"
    if "backends" in before and not before["backends"].verdicts[OK]:
        return "no engine loads here, see backends"
    return None


def _result(name: SectionName, folder: Path, end: float, reason: str | None) -> SectionResult:
    section, start = SECTIONS[name], time.monotonic()
    if reason is None and end <= start:
        reason = "the time is used up"
    if reason is not None:
        return SectionResult(name, section.purpose, section.columns, reason=reason)
    deadline = start + _SHARE * (end - start)
    rows = tuple(_until(deadline, run_isolated(command_of(name, folder), PATIENCE, deadline)))
    return SectionResult(name, section.purpose, section.columns, rows, time.monotonic() - start)


def _until(deadline: float, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows, as long as there is time."""
    for row in rows:
        yield row
        if time.monotonic() > deadline:
            yield Row("the rest", NOT_TRIED, ("the time is used up",))
            return
