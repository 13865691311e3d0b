"""Wherever names leave for a reader, they arrive as they are written, and do nothing."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import logging
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.caffe_proto.loading import load
from prototrt.caffe_proto.net.deploy_text import deploy_text
from prototrt.converter.files.writing.files import json_text
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.reports import BatchResult, json_report, junit_report, markdown_report
from prototrt.converter.front.commandline.logs import Line
from prototrt.converter.front.commandline.printing import show, show_lines
from prototrt.converter.front.commandline.progress import BuildProgress
from prototrt.converter.front.commandline.tables import Table
from prototrt.converter.showing.page.writing import GRAPHVIZ, page
from prototrt.surgery.views.drawing import USER, Drawing
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.odd_names import TEXTS, hidden_in
from prototrt.tests.sources import nodes_of

few = settings(
    max_examples=2 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def result_of(text: str) -> BatchResult:
    entry = Entry(text, "models.yaml:1", "net.prototxt", None, "net.plan", {})
    outcome = Outcome(entry, Status.FAILED, 3, message=text, warnings=(text,))
    return BatchResult("models.yaml", datetime(2020, 1, 2, tzinfo=timezone.utc), 1.0, [outcome])


# ---------------------------------------------------------------- the terminal


@few
@given(TEXTS)
def test_lines_on_a_terminal(capsys: pytest.CaptureFixture[str], text: str) -> None:
    show(text)
    show(text, err=True)
    told = capsys.readouterr()
    assert told == (f"{visible_line(text)}\n", f"{visible_line(text)}\n")
    assert hidden_in(told.out) == []
    show_lines(text)
    assert capsys.readouterr().out == f"{visible(text)}\n"


@few
@given(TEXTS)
def test_tables_on_a_terminal(capsys: pytest.CaptureFixture[str], text: str) -> None:
    table = Table(["name"], folds=(0,))
    table.add_row(f"({text})")
    table.show()
    told = capsys.readouterr().out
    assert hidden_in(told) == []
    letters = re.sub(r"\s", "", visible_line(f"({text})"))
    assert letters in re.sub(r"\s", "", told)


@few
@given(TEXTS)
def test_lines_of_the_log(text: str) -> None:
    record = logging.LogRecord("prototrt.x", logging.WARNING, "x.py", 1, "%s", (text,), None)
    told = Line().format(record)
    assert told == visible_line(f"warning: {text}")
    assert hidden_in(told) == []


@few
@given(TEXTS)
@example("[red] :smile: [/b]")
def test_names_of_phases(text: str) -> None:
    screen = io.StringIO()
    with BuildProgress(Console(file=screen, force_terminal=True, width=200, color_system=None)) as progress:
        progress.phase(text, None, 2)
        progress.step(text, 0)
    told = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", screen.getvalue())  # what draws the bars
    assert hidden_in(told) == []
    assert not re.fullmatch(r"[ -~]*", text) or visible_line(text).strip() in told


def test_whatever_is_printed_passes_the_border() -> None:
    """Only these two know stdout and stderr."""
    border = {"printing.py", "tables.py"}
    files = [ROOT / "cli.py", *(ROOT / "converter" / "front" / "commandline").rglob("*.py")]
    printing = {
        file.name
        for file in files
        for call in nodes_of(file)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in ("print", "click.echo", "put", "sys.stdout.write")
    }
    assert printing == border


# ---------------------------------------------------------------- reports


@few
@given(TEXTS)
def test_junit(text: str) -> None:
    report = junit_report(result_of(text))
    assert hidden_in(report) == []
    (case,) = ElementTree.fromstring(report).iter("testcase")
    assert case.get("name") == visible_line(text)
    assert (case.findtext("failure") or "").strip() == visible(text).strip()
    assert (case.findtext("system-err") or "") == visible_line(text)


@few
@given(TEXTS)
def test_markdown(text: str) -> None:
    report = markdown_report(result_of(text))
    assert hidden_in(report) == []
    (row,) = (line for line in report.splitlines() if "❌" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    (_, fence, name, _) = re.split(r"^\| (`+)(.*?)(?<!`)\1(?!`)", row)[:4]
    assert fence not in re.findall("`+", name)
    assert visible_line(text).strip(" `") in name.replace(r"\|", "|")


@few
@given(TEXTS)
def test_json(text: str) -> None:
    for report in (json_report(result_of(text)), json_text({"name": text, "warnings": [text]})):
        assert report.isascii()
        assert hidden_in(report) == []
    assert json.loads(json_report(result_of(text)))["models"][0]["name"] == text


@few
@given(TEXTS)
def test_a_deploy_net_is_read_back(tmp_path: Path, text: str) -> None:
    name = "".join(f"\\{byte:03o}" for byte in text.encode(errors="replace"))
    file = tmp_path / "net.prototxt"
    layer = 'type: "Input" top: "x" input_param { shape { dim: 2 } }'
    tanh = 'type: "TanH" bottom: "x" top: "y"'
    file.write_text(f'name: "{name}" layer {{ name: "in" {layer} }} layer {{ name: "{name}" {tanh} }}')
    net = load(str(file))
    deployed = deploy_text(net)
    assert hidden_in(deployed) == []
    file.write_text(deployed)
    assert load(str(file)).name == net.name


# ---------------------------------------------------------------- pictures and pages


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
@settings(max_examples=8)
@given(st.lists(TEXTS.filter(str.strip), min_size=5, max_size=10))
def test_svg_is_drawn_as_it_is_written(texts: Sequence[str]) -> None:
    drawing = Drawing("".join(texts))
    for text in texts:
        drawing.edge(drawing.node(text, (f"({text})",), USER), drawing.node(text, ("other",), USER), text)
        with drawing.frame(text, (text,), True):
            drawing.node(text, (text,), USER)
    text = drawing.text()
    assert hidden_in(text) == []
    done = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, check=True)
    svg = done.stdout.decode()
    assert hidden_in(svg) == []
    shown = [
        element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    drawn = "".join("".join(shown).replace("\N{NO-BREAK SPACE}", " ").split())
    for one in texts:
        assert "".join(visible_line(f"({one})").replace("\N{NO-BREAK SPACE}", " ").split()) in drawn


class Reader(HTMLParser):
    """What a browser finds in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.texts.setdefault(self.tags[-1], []).append(data)

    @property
    def policy(self) -> dict[str, list[str]]:
        (content,) = (value for _, value in self.attributes if value and value.startswith("default-src"))
        return {name: sources for name, *sources in map(str.split, content.split(";"))}


def described(text: str) -> str:
    drawing = {"title": text, "items": [], "edges": []}
    check = {"way": text, "against": text, "layer": text, "blob": text, "holds": False}
    numbers = dict.fromkeys(("max_abs", "max_rel", "rms", "cosine"), 1.0)
    facts: dict[str, Any] = {
        "title": text,
        "file": text,
        "weights": text,
        "stages": [text, text],
        "verification": {"holds": False, "comparisons": [{**check, **numbers}]},
        "drawings": [drawing, drawing],
        "layers": [{"name": text}],
        "pairs": [{"output": text, "input": text, "shape": "2"}],
        "warnings": [text],
    }
    return page(facts)


PAGES = [
    pytest.param(
        described,
        id="page",
        marks=pytest.mark.skipif(not GRAPHVIZ.exists(), reason="run `make vendor` first"),
    ),
]


@pytest.mark.parametrize("written", PAGES)
@settings(max_examples=10)
@given(text=TEXTS)
def test_pages(written: Callable[[str], str], text: str) -> None:
    html = written(text)
    assert hidden_in(html.replace(graphviz(), "")) == []
    found, plain = Reader(html), Reader(written("x"))
    assert found.tags == plain.tags
    cells = "".join(found.texts["td"])
    assert cells.count(visible_line(text)) >= 2


@pytest.mark.parametrize("written", PAGES)
def test_a_page_runs_and_loads_only_what_we_wrote(written: Callable[[str], str]) -> None:
    html = written("x")
    found = Reader(html)
    assert [name for name, _ in found.attributes if name.startswith("on") or name == "style"] == []
    assert (
        found.policy["default-src"] == found.policy["base-uri"] == found.policy["form-action"] == ["'none'"]
    )
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        texts = re.findall(rf"<{element}(?: type=\"module\")?>(.*?)</{element}>", html, re.DOTALL)
        sources = [
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts
        ]
        stated = found.policy.get(directive, [])
        assert sources == [source for source in stated if source.startswith("'sha256")]
        assert {*stated} - {*sources} <= {"blob:", "'wasm-unsafe-eval'"}


def graphviz() -> str:
    return GRAPHVIZ.read_text() if GRAPHVIZ.exists() else "\0"
