"""What a CI job reads: JUnit XML by the schema, JSON, Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import assume, example, given, settings

from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.converter.front.batch.entry import SEVERITY, Entry, Outcome, Status, worst_exit_code
from prototrt.converter.front.batch.reports import BatchResult, json_report, junit_report, markdown_report
from prototrt.converter.front.commandline.frame import EXIT_CODES
from prototrt.tests.odd_names import LINKS, TEXTS

GOLDENS = Path(__file__).parents[3] / "goldens"


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


def test_failed_models_stand_first_with_what_to_do() -> None:
    rows = [line for line in markdown_report(RESULT).splitlines() if line.startswith("| `")]
    assert rows[0] == '| `wrong` | ❌ failed | `a.prototxt:1: layer "x" & more` | ```` ```mend``` ```` |'
    assert [row.split("`")[1] for row in rows] == [
        *("wrong", "ours", "slow", "large", "gone", "good", "old\\|er", "later")
    ]
    whole = BatchResult("models.yaml", RESULT.began, 1.0, RESULT.outcomes[:2])
    assert "| reason |" not in markdown_report(whole)
    lost = BatchResult("models.yaml", RESULT.began, 1.0, RESULT.outcomes[2:4])
    assert "| size |" not in markdown_report(lost)


def test_markdown(check_text: Callable[[Path, str], None]) -> None:
    check_text(GOLDENS / "batch" / "report.md", markdown_report(RESULT))


def test_an_infinite_difference_has_no_number_in_json() -> None:
    facts = {"verification": {"comparisons": [{"max_abs": 1e-7}, {"max_abs": None}]}}
    report = markdown_report(
        BatchResult("models.yaml", RESULT.began, 1.0, [outcome("far", Status.CACHED, facts=facts)])
    )
    assert report.splitlines()[-1] == "| `far` | ✅ cached | 1.2 |  | inf |  |"


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


def named(text: str) -> BatchResult:
    """Two models with a name and a message of any characters."""
    began = datetime(2020, 1, 2, tzinfo=timezone.utc)
    outcomes = [
        outcome(text, Status.FAILED, 3, text or "why"),
        outcome(f"{text}x", Status.CONVERTED, warnings=(text,)),
    ]
    return BatchResult("models.yaml", began, 1.0, outcomes)


@settings(max_examples=2 * settings().max_examples)
@given(TEXTS)
def test_junit_of_any_name_is_what_the_schema_says(text: str) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    schema = _schemas.setdefault("junit", xmlschema.XMLSchema(str(GOLDENS / "junit.xsd")))
    schema.validate(junit_report(named(text)))


_schemas: dict[str, Any] = {}


class Shown(HTMLParser):
    """What a reader of a rendered report sees: the elements, and the texts in cells, bold type and code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {"td": [], "strong": [], "code": []}
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._open.append(tag)
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for tag in self.texts:
            if tag in self._open:
                self.texts[tag][-1] += data


def by_markdown_it(text: str) -> str:
    """With the tables and strokes that GitHub and GitLab know."""
    markdown: Any = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    return str(markdown.enable(["table", "strikethrough"]).render(text))


def by_github(text: str) -> str:
    """By the library that GitHub uses, with its extensions."""
    cmark: Any = pytest.importorskip("cmarkgfm", reason="needs cmarkgfm, with GitHub's library in C")
    return str(cmark.github_flavored_markdown_to_html(text))


@pytest.mark.parametrize("render", [by_markdown_it, by_github])
@settings(max_examples=4 * settings().max_examples)
@given(text=TEXTS)
@example(text="".join(LINKS))
@example(text="a|b\\|c\\\\|d")
@example(text="``a` ``` ")
def test_markdown_of_any_name_as_it_is_rendered(render: Callable[[str], str], text: str) -> None:
    assume(text.strip(" ") or not text)  # how many blanks stay of blanks alone differs between the two
    shown, plain = (Shown(render(markdown_report(named(each)))) for each in (text, "plain"))
    assert shown.tags == plain.tags
    assert {*shown.tags} <= {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "strong", "pre", "code"}
    assert shown.texts["strong"] == [visible_line(text) or "  "]
    assert shown.texts["td"][::4] == [visible_line(text) or "  ", visible_line(f"{text}x"), ""]
    assert shown.texts["code"][-1] == visible(text or "why").rstrip() + "\n"


@pytest.mark.parametrize("render", [by_markdown_it, by_github])
@pytest.mark.parametrize("link", LINKS)
def test_a_name_is_no_link(render: Callable[[str], str], link: str) -> None:
    """As code, which sites leave alone also where they look for mentions, numbers of issues and formulas."""
    html = render(markdown_report(named(link)))
    assert html.count(f"<code>{escape(link)}</code>") == 3
    assert not re.search(r"<(a|img|del|details|input)\b", html)


@pytest.mark.parametrize("reader", ["lxml.etree", "junitparser"])
@settings(max_examples=2 * settings().max_examples)
@given(text=TEXTS)
def test_junit_as_other_programs_read_it(reader: str, text: str) -> None:
    library: Any = pytest.importorskip(reader, reason=f"needs {reader.partition('.')[0]}")
    report = junit_report(named(text)).encode()
    if reader == "lxml.etree":
        (suite,) = library.fromstring(report, library.XMLParser(resolve_entities=False))
        names = [case.get("name") for case in suite]
    else:
        (suite,) = library.JUnitXml.fromstring(report)
        names = [case.name for case in suite]
        assert (suite.tests, suite.failures) == (2, 1)
    assert names == [visible_line(text), visible_line(f"{text}x")]


def test_junit_attaches_no_file() -> None:
    """Jenkins publishes the files that a report names in this form."""
    report = junit_report(named("[[ATTACHMENT|/etc/passwd]]"))
    assert "[[ATTACHMENT" not in report
    assert "\\x5b[ATTACHMENT|/etc/passwd]]" in report
