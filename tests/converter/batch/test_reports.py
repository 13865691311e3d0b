"""What a CI job reads: JUnit XML by the schema, JSON, Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest

from prototrt.converter.batch.entry import SEVERITY, Entry, Outcome, Status, worst_exit_code
from prototrt.converter.batch.reports import BatchResult, json_report, junit_report, markdown_report
from prototrt.converter.commandline.frame import EXIT_CODES

GOLDENS = Path(__file__).parents[2] / "goldens"


def outcome(name: str, status: Status, code: int = 0, message: str = "", **more: object) -> Outcome:
    entry = Entry(
        name, "models.yaml:2", f"{name}.prototxt", None, f"out/{name}.plan", {"tf32": True, "cont": ""}
    )
    return Outcome(entry, status, code, 1.25, message, **more)  # type: ignore[arg-type]  # as they are named


CHECKED = {
    "bytes": 4_700_000,
    "nodes": 34,
    "verification": {"comparisons": [{"max_abs": 1e-7}, {"max_abs": 2e-7}]},
}
RESULT = BatchResult(
    "lists/models.yaml",
    datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
    12.5,
    [
        outcome("good", Status.CONVERTED, facts=CHECKED),
        outcome("old|er", Status.CACHED, facts={"bytes": 100}, warnings=("odd <field>", "and \x00 more")),
        outcome("wrong", Status.FAILED, 3, 'a.prototxt:1: layer "x" & more\n  fix: ```mend```'),
        outcome("ours", Status.FAILED, 1, "internal error\nTraceback"),
        outcome("slow", Status.TIMED_OUT, 4, "late"),
        outcome("large", Status.OUT_OF_MEMORY, 4, "large"),
        outcome("gone", Status.CRASHED, 4, ""),
        outcome("later", Status.SKIPPED, message="not begun"),
    ],
)


def test_junit_is_what_the_schema_says() -> None:
    schema = pytest.importorskip("xmlschema").XMLSchema(str(GOLDENS / "junit.xsd"))
    text = junit_report(RESULT)
    schema.validate(text)
    with pytest.raises(Exception, match="failures"):  # the schema does refuse
        schema.validate(text.replace(' failures="1"', "", 2))


def test_junit_tells_failures_from_errors() -> None:
    (suite,) = ElementTree.fromstring(junit_report(RESULT))
    assert suite.attrib == {
        "name": "models.yaml",
        "tests": "8",
        "failures": "1",
        "errors": "4",
        "skipped": "1",
        "time": "12.500",
        "timestamp": "2020-01-02T03:04:05",
    }
    kinds = {case.get("name"): [child.tag for child in case] for case in suite}
    assert kinds == {
        "good": [],
        "old|er": ["system-err"],
        "wrong": ["failure"],
        "ours": ["error"],
        "slow": ["error"],
        "large": ["error"],
        "gone": ["error"],
        "later": ["skipped"],
    }
    (failure,) = suite.iter("failure")
    assert failure.get("message") == 'a.prototxt:1: layer "x" & more'
    assert failure.text == RESULT.outcomes[2].message
    (odd,) = suite.iter("system-err")
    assert odd.text == "odd <field>\nand \\x00 more"


def test_json_has_everything() -> None:
    facts = json.loads(json_report(RESULT))
    assert {name: facts[name] for name in ("file", "began", "seconds", "exit_code")} == {
        "file": "lists/models.yaml",
        "began": "2020-01-02T03:04:05+00:00",
        "seconds": 12.5,
        "exit_code": 1,
    }
    assert facts["models"][0] == {
        "name": "good",
        "where": "models.yaml:2",
        "prototxt": "good.prototxt",
        "weights": None,
        "target": "out/good.plan",
        "options": {"tf32": True},
        "needs": [],
        "timeout": None,
        "memory": None,
        "cpu_time": 14400.0,
        "file_size": 64_000_000_000,
        "status": "converted",
        "exit_code": 0,
        "seconds": 1.25,
        "message": "",
        "warnings": [],
        "facts": CHECKED,
    }


def test_markdown(check_text: Callable[[Path, str], None]) -> None:
    check_text(GOLDENS / "batch" / "report.md", markdown_report(RESULT))


def test_summary_counts() -> None:
    assert RESULT.summary == (
        "8 models in 12.5 s: 1 converted, 1 cached, 2 failed, 1 timed out, 1 out of memory, 1 crashed, 1 skipped"
    )
    nothing = BatchResult("models.yaml", RESULT.began, 0.0, [])
    assert (nothing.summary, nothing.exit_code) == ("0 models in 0.0 s", 0)


@pytest.mark.parametrize(
    ("codes", "worst"),
    [([], 0), ([0, 0], 0), ([0, 3], 3), ([4, 3], 4), ([5, 4], 5), ([6, 5, 4], 5), ([1, 5, 0], 1)],
)
def test_the_worst_exit_code(codes: list[int], worst: int) -> None:
    assert worst_exit_code(codes) == worst


def test_every_exit_code_has_its_severity() -> None:
    told = {int(code) for code in re.findall(r"^ +(\d+) ", EXIT_CODES, re.MULTILINE)}
    assert set(SEVERITY) == told - {2, 130}  # of the command line, and of Ctrl-C
