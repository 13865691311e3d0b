"""Pages that show a way to go are true: commands and Python run as they stand, in the order of the page.

What other programs do is in blocks of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from prototrt.caffe_proto.options import LoadOptions
from prototrt.cli import main
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.shown_pages import run_page

DOCS = ROOT / "docs"
PAGES = [
    "coming-from-nvidias-caffe-parser.md",
    "commands.md",
    "deploy.md",
    "how-it-works.md",
    "opencv.md",
    "other-tools.md",
    "preprocessing.md",
    "sizes.md",
    "troubleshooting.md",
    "tutorial.md",
]


@pytest.mark.trt
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder. A file begins with a comment that is its name; a command that shows an error must fail."""
    pytest.importorskip("onnxruntime", reason="runs a model")
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    run_page(DOCS / page)


@pytest.mark.parametrize("page", PAGES)
def test_options_and_keywords_exist(page: str) -> None:
    known = {"--help", *all_options(main)}
    keywords = {each.name for kind in (LoadOptions, RewriteOptions) for each in fields(kind)}
    for text in said_of_prototrt((DOCS / page).read_text()):
        assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text)) <= known, text
        assert set(re.findall(r"[(, `](\w+)=", text)) <= keywords, text


def rows_under(page: str, head: str) -> list[list[str]]:
    """The cells of the table whose first column has this title."""
    table = (DOCS / page).read_text().partition(f"\n| {head} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def test_programs_that_take_a_model_are_tried_or_said_not_to_be() -> None:
    """By a file of tests that names the program, or by the words."""
    rows = rows_under("other-tools.md", "you have")
    assert len(rows) > 5
    for row in rows:
        assert row[-1] == "not tried" or (ROOT / row[-1].strip("`")).is_file(), row[0]


def test_machines_that_run_an_engine_are_tried_or_said_not_to_be() -> None:
    """By a command of their section, or by the words."""
    page = (DOCS / "deploy.md").read_text()
    sections = {title(part): part for part in page.split("\n## ")[1:]}
    rows = rows_under("deploy.md", "where the net will run")
    assert len(rows) > 6
    for row in rows:
        section = sections[re.findall(r"\(#([\w-]+)\)", row[0])[0]]
        assert "```console" in section or "not tried" in section.lower(), row[0]


def title(section: str) -> str:
    """The anchor of a section's heading."""
    return re.sub(r"[^\w -]", "", section.partition("\n")[0].lower()).replace(" ", "-")


def said_of_prototrt(page: str) -> Iterator[str]:
    """Commands in the text and in blocks; and in tables that compare programs, the column about prototrt."""
    yield from re.findall(r"`(prototrt [^`]*)`", page)
    yield from re.findall(r"^prototrt .*$", page, re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE):
        cells = [row.strip("|").split("|")[-1] for row in table.splitlines()]
        if "prototrt" in cells[0]:
            yield from (code for cell in cells for code in re.findall(r"`[^`]*`", cell))


def all_options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        yield from parameter.opts
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from all_options(each)
