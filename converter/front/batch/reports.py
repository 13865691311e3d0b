"""What is left of a batch for a CI job: JUnit XML, JSON, Markdown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.caffe_proto.common.wording import Command, command_words, plural, shortened
from prototrt.converter.files.writing.files import result_text
from prototrt.converter.front.batch.entry import Outcome, Status, worst_exit_code

_SIGNS = {Status.CONVERTED: "✅", Status.CACHED: "✅", Status.SKIPPED: "⏭️"}


@dataclass(frozen=True, slots=True)
class BatchResult:
    """All outcomes of a batch. ``seconds`` are wall time; ``began`` has a time zone.

    ``warnings`` are those of all models, and what was asked in vain.
    """

    file: str
    began: datetime
    seconds: float
    outcomes: Sequence[Outcome]
    warnings: tuple[str, ...] = ()

    @property
    def warnings_of_left_out(self) -> list[str]:
        """Those of the warnings about layers that engines lack."""
        return [
            f"{outcome.entry.name}: {layer['warning']}"
            for outcome in self.outcomes
            for layer in outcome.facts.get("left_out", ())
        ]

    @property
    def exit_code(self) -> int:
        """That of the worst model."""
        return worst_exit_code([outcome.exit_code for outcome in self.outcomes])

    @property
    def summary(self) -> str:
        """``40 models in 12.3 s: 38 converted, 1 cached, 1 failed``"""
        counts = Counter(outcome.status for outcome in self.outcomes)
        text = ", ".join(f"{counts[status]} {status.value}" for status in Status if counts[status])
        return f"{plural(len(self.outcomes), 'model')} in {self.seconds:.1f} s{': ' if text else ''}{text}"


def json_report(result: BatchResult) -> str:
    facts = {
        "file": result.file,
        "began": result.began.isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 3),
        "exit_code": result.exit_code,
        "models": [outcome.as_dict() for outcome in result.outcomes],
    }
    return result_text(facts)


def junit_report(result: BatchResult) -> str:
    """In the form of Ant and Jenkins: what the model is to blame for is a failure, the rest an error."""
    counts = Counter(map(_kind, result.outcomes))
    totals = {"tests": len(result.outcomes), "failures": counts["failure"], "errors": counts["error"]}
    attributes = {name: str(count) for name, count in totals.items()} | {"time": f"{result.seconds:.3f}"}
    root = ElementTree.Element("testsuites", {"name": command_words(Command("batch")), **attributes})
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": visible_line(Path(result.file).name),
            **attributes,
            "skipped": str(counts["skipped"]),
            # Without a zone: so it is in the schema.
            "timestamp": result.began.replace(tzinfo=None).isoformat(timespec="seconds"),
        },
    )
    for outcome in result.outcomes:
        _add_case(suite, outcome, Path(result.file).stem)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, outcome: Outcome, group: str) -> None:
    names = {"classname": visible_line(group), "name": visible_line(outcome.entry.name)}
    case = ElementTree.SubElement(suite, "testcase", {**names, "time": f"{outcome.seconds:.3f}"})
    kind, message = _kind(outcome), visible(outcome.message)
    if kind == "skipped":
        ElementTree.SubElement(case, kind, {"message": message})
    elif kind is not None:
        first = message.splitlines()[0] if message else outcome.status.value
        element = ElementTree.SubElement(case, kind, {"type": outcome.status.value, "message": first})
        element.text = message
    if outcome.warnings:
        ElementTree.SubElement(case, "system-err").text = "\n".join(map(visible_line, outcome.warnings))


def _kind(outcome: Outcome) -> str | None:
    if outcome.status.is_good:
        return None
    if outcome.status is Status.SKIPPED:
        return "skipped"
    return "failure" if outcome.status is Status.FAILED and outcome.exit_code != 1 else "error"


def markdown_report(result: BatchResult) -> str:
    """A table of the models that failed, with reasons and fixes, then one of the others, then whole messages."""
    bad = [each for each in result.outcomes if not (each.status.is_good or each.status is Status.SKIPPED)]
    others = [each for each in result.outcomes if each not in bad]
    lines = [f"### {_name(Path(result.file).name)}", "", result.summary]
    if bad:
        lines += ["", "| model | result | reason | fix |", "| --- | --- | --- | --- |"]
        lines += [_row(each, *_reason_and_fix(each)) for each in bad]
    if others:
        head = "| model | result | s | size | off by at most | warnings |"
        lines += ["", head, "| --- | --- | ---: | ---: | ---: | ---: |", *map(_row_of_numbers, others)]
    for outcome in bad:
        if outcome.message:
            text, fence = visible(outcome.message).rstrip(), _fence(outcome.message, 3)
            lines += ["", f"**{_name(outcome.entry.name)}**", "", fence, text, fence]
    return "\n".join(lines) + "\n"


def _reason_and_fix(outcome: Outcome) -> tuple[str, str]:
    """The first line of the message, and its first fix, as code."""
    first, *rest = visible(outcome.message).splitlines() or [""]
    fix = next((line.partition("fix: ")[2] for line in rest if line.lstrip().startswith("fix: ")), None)
    return _cell(shortened(first) or outcome.status.value), "" if fix is None else _cell(shortened(fix))


def _row_of_numbers(outcome: Outcome) -> str:
    facts = outcome.facts
    size = text_of_bytes(facts["bytes"]) if "bytes" in facts else ""
    return _row(outcome, f"{outcome.seconds:.1f}", size, _largest(outcome), str(len(outcome.warnings) or ""))


def _row(outcome: Outcome, *cells: str) -> str:
    result = f"{_SIGNS.get(outcome.status, '❌')} {outcome.status.value}"
    return f"| {' | '.join((_cell(outcome.entry.name), result, *cells))} |"


def _cell(text: str) -> str:
    return _name(text).replace("|", r"\|")


def _largest(outcome: Outcome) -> str:
    """The largest difference that a verification found."""
    comparisons = (outcome.facts.get("verification") or {}).get("comparisons", [])
    # JSON has no infinity: it is null there.
    differences = [math.inf if one["max_abs"] is None else one["max_abs"] for one in comparisons]
    return f"{max(differences):.1e}" if differences else ""


def _name(text: str) -> str:
    """A name as code: there, neither Markdown nor what sites add to it (links, mentions, formulas) means anything."""
    name, fence = visible_line(text), _fence(text, 1)
    space = "" if name.strip(" `") == name != "" else " "
    return f"{fence}{space}{name}{space}{fence}"


def _fence(text: str, least: int) -> str:
    """More backticks than the text has in a row."""
    return "`" * max(least, *(len(run) + 1 for run in re.findall("`+", text)), least)
