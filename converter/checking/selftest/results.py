"""The results of a run: as facts for programs, as the tables of docs/gpu-results.md, and in a few lines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prototrt.caffe_proto.common.errors import UnreadableFileError, VerificationError
from prototrt.caffe_proto.common.files import errors_for_user, read_regular, value_from_json
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.common.wording import Command, Worded
from prototrt.converter.checking.selftest.rows import BAD, NOT_TRIED, OK, Row
from prototrt.converter.files.writing.files import FORMAT, result_text
from prototrt.converter.files.writing.texts import atomic_text, json_value

_LARGEST = 1 << 24
"""Bytes of a file of results: ours have some 50 thousand."""
_PLAIN = {
    "backends": "An engine loads and runs",
    "goldens": "Engines give Caffe's numbers",
    "builds": "TensorRT for RTX builds the nets",
    "reference": "NumPy gives Caffe's numbers",
    "onnxruntime": "onnxruntime gives Caffe's numbers",
    "torch": "PyTorch gives Caffe's numbers",
}
"""The sections that have a line in the summary."""


@dataclass(frozen=True)
class SectionResult:
    """The table of a section; ``reason`` says why it has no rows."""

    name: str
    purpose: str
    columns: Sequence[str]
    rows: Sequence[Row] = ()
    seconds: float = 0.0
    reason: str | None = None

    @property
    def verdicts(self) -> Counter[str]:
        return Counter([NOT_TRIED] if self.reason else [row.verdict for row in self.rows])


@dataclass(frozen=True)
class SelfTest:
    """What works on a machine. Nothing in it names the machine or its user."""

    prototrt: str
    sections: Sequence[SectionResult]
    seconds: float

    @property
    def verdicts(self) -> Counter[str]:
        return sum((section.verdicts for section in self.sections), Counter())

    @property
    def summary(self) -> list[str]:
        """What works here, in a few lines."""
        sections = {section.name: section for section in self.sections}
        tests = [f"{title}: {_share(sections.get(name))}" for name, title in _PLAIN.items()]
        return [
            f"This machine: {_machine(sections.get('machine'))}",
            *tests,
            f"Speed of an LSTM: {_speed(sections.get('speed'))}",
            self._total(),
        ]

    def _total(self) -> str:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        return f"Checks: {counts or 'none'}, in {self.seconds:.0f} s"

    def markdown(self) -> str:
        """All sections as tables, and the summary."""
        lines: list[str] = []
        for section in self.sections:
            lines += [f"## {section.name}", ""]
            if section.reason:
                lines.append(f"not tried: {section.reason}; it would {section.purpose}")
            else:
                lines += _table(section.columns, [row.cells for row in section.rows])
            lines.append("")
        return "\n".join([*map(visible_line, [*lines, *(f"- {line}" for line in self.summary)]), ""])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "prototrt": self.prototrt,
            "seconds": self.seconds,
            "sections": [asdict(section) for section in self.sections],
            "summary": self.summary,
        }

    def save(self, file: PathLike) -> None:
        """Write the file that ``read`` reads. Raises ``ConversionError``."""
        atomic_text(file, result_text(self.as_dict()), json_value)

    def refuse(self) -> None:
        """Raise ``VerificationError`` if anything is wrong, fails or crashes."""
        bad = [(section.name, row) for section in self.sections for row in section.rows if row.verdict in BAD]
        if not bad:
            return
        name, row = bad[0]
        others = f"; {len(bad) - 1} more" if len(bad) > 1 else ""
        raise VerificationError(
            f"{name}: {row.what}: {row.verdict}, {' '.join(row.details)}{others}",
            fix=Worded(
                "send the developers the results: `{}`", Command("selftest", typed=["-o", "results.json"])
            ),
        )


def read(file: PathLike) -> SelfTest:
    """The results in a file. Raises ``UnreadableFileError``."""
    name, what = os.fspath(file), "the results of a self-test"
    with errors_for_user(name, what):
        content = read_regular(name, what, _LARGEST)
    try:
        return _from_facts(value_from_json(content))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnreadableFileError(
            f"this is not a file with {what}",
            where=name,
            because=f"of {type(error).__name__}: {error}",
            fix=Worded("give a file that {} wrote", Command("selftest")),
        ) from error


def _from_facts(facts: Mapping[str, Any]) -> SelfTest:
    if facts["format"] != FORMAT:
        raise ValueError(f"its format is {facts['format']}, expected {FORMAT}")
    sections = tuple(
        SectionResult(
            str(each["name"]),
            str(each["purpose"]),
            _texts(each["columns"]),
            tuple(Row(str(row["what"]), str(row["verdict"]), _texts(row["details"])) for row in each["rows"]),
            float(each["seconds"]),
            None if each["reason"] is None else str(each["reason"]),
        )
        for each in facts["sections"]
    )
    return SelfTest(str(facts["prototrt"]), sections, float(facts["seconds"]))


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, values))


def _machine(section: SectionResult | None) -> str:
    facts = {row.what: " ".join(row.details) for row in section.rows if row.verdict == OK} if section else {}
    driver = facts.get("driver")
    names = ("tensorrt-rtx", "tensorrt")
    packages = [f"{name} {facts[name]}" for name in names if name in facts] or ["no TensorRT"]
    gpu = facts.get("GPU 0", "no GPU")
    return ", ".join([gpu, f"driver {driver}" if driver else "no driver", *packages])


def _share(section: SectionResult | None) -> str:
    """``41 of 43``, and the first that is not among them."""
    if section is None:
        return "not tried"
    if section.reason:
        return f"not tried, {section.reason}"
    rows = [row for row in section.rows if row.verdict != NOT_TRIED]
    if not rows:
        details = {detail for row in section.rows for detail in row.details}
        return f"not tried, {'; '.join(sorted(details))}" if details else "not tried"
    good = sum(row.verdict == OK for row in rows)
    bad = next((f"; {row.what}: {' '.join(row.details)}" for row in rows if row.verdict in BAD), "")
    left = len(section.rows) - len(rows)
    return f"{'yes' if good == len(rows) else 'no'}, {good} of {len(rows)}{bad}" + (
        f"; {left} not tried" if left else ""
    )


def _speed(section: SectionResult | None) -> str:
    if section is None or section.reason:
        return _share(section)
    row = next((row for row in section.rows if row.verdict == OK), None)
    if row is None:
        return _share(section)
    cells = dict(zip(section.columns, row.cells, strict=False))
    times = (cells["queued"], cells["CUDA graph"], cells["cuDNN's call"])
    return f"{row.what}: {times[0]}, {times[1]} as a CUDA graph, {times[2]} by cuDNN"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    width = max(len(columns), *(len(row) for row in rows), 0) if (rows := list(rows)) else len(columns)
    padded = [columns, ["---"] * width, *rows]
    for row in padded:
        cells = [*row, *[""] * (width - len(row))]
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
