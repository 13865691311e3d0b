"""Pictures in files, by Graphviz's program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError
from prototrt.cli import main
from prototrt.converter.showing.views.pictures import refuse_other_formats, render
from prototrt.tests.command_line import DEPLOY


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
@pytest.mark.parametrize(
    ("suffix", "begins"),
    [
        (".svg", b"<?xml"),
        (".PNG", b"\x89PNG"),
        (".pdf", b"%PDF"),
        (".dot", b'digraph "'),
        (".gv", b'digraph "'),
    ],
)
def test_the_suffix_says_what_is_made(tmp_path: Path, suffix: str, begins: bytes) -> None:
    target = tmp_path / f"net{suffix}"
    result = CliRunner().invoke(main, ["dot", DEPLOY, "--stage", "rewritten", "-o", str(target)])
    assert result.exit_code == 0, result.output
    assert target.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("net.jpg", "ends in .jpg"),
        ("net.SVGZ", "ends in .svgz"),
        ("net.html.txt", "ends in .txt"),
        ("net", "has no suffix"),
    ],
)
def test_other_formats_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str, found: str
) -> None:
    """Before the net is read: no text of Graphviz's under the name of an image."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["dot", "nowhere.prototxt", "-o", target])
    assert result.exit_code == 2
    stem = target.rpartition(".")[0] or target
    assert result.stderr.endswith(
        f'Error: "{target}" {found}, expected .dot, .gv, .html, .pdf, .png or .svg\n'
        f"  fix: write a page for a browser, -o {stem}.html, or an image, -o {stem}.png\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_python_words_of_other_formats() -> None:
    with pytest.raises(OptionsError, match=r'write a page for a browser, file="net\.html"'):
        refuse_other_formats("net.jpg")


def test_devices_need_no_suffix() -> None:
    assert CliRunner().invoke(main, ["dot", DEPLOY, "-o", "/dev/null"]).exit_code == 0


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_open_shows_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: bool) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return found

    monkeypatch.setattr("webbrowser.open", browse)
    target = tmp_path / "a net.svg"
    result = CliRunner().invoke(main, ["dot", DEPLOY, "-o", str(target), "--open"])
    assert result.exit_code == 0, result.output
    assert opened == [f"file://{tmp_path}/a%20net.svg"]
    assert result.stderr == ("" if found else f"warning: no browser was found: open {target} yourself\n")


@pytest.mark.parametrize("target", [[], ["-o", "net.dot"], ["-o", "net.GV"]])
def test_open_is_for_what_browsers_show(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["dot", DEPLOY, "--open", *target])
    assert result.exit_code == 2
    assert result.stderr.endswith("--open is for pages and images: also give -o FILE.html\n")


def test_the_program_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    target = tmp_path / "net.svg"
    result = CliRunner().invoke(main, ["dot", DEPLOY, "-o", str(target)])
    assert result.exit_code == 3
    assert result.stderr == (
        f"error: {target}: .svg is made by Graphviz's program dot, which is not on the path\n"
        "  fix: install Graphviz (apt install graphviz, brew install graphviz), or write .html,"
        " which needs no program\n"
    )
    assert not target.exists()


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_the_program_fails() -> None:
    with pytest.raises(ConversionError) as raised:
        render("digraph {", ".svg", "net.svg")
    first, because, fix = str(raised.value).splitlines()
    assert first == "net.svg: Graphviz's program dot failed with exit code 1"
    assert because.startswith("  because Error: ")
    assert fix == "  fix: write .dot, and open it with another program"


def test_why_a_net_of_a_page_cannot_be_rewritten_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text('input: "x" layer { name: "y" type: "ReLU" bottom: "x" top: "y" }')
    result = CliRunner().invoke(main, ["dot", "net.prototxt", "-o", "net.html"])
    assert result.exit_code == 0
    assert result.stderr.startswith(
        'warning: the net cannot be rewritten: net.prototxt: the file states no shape for the input "x" (line 1);'
        " fix: give its shape: --shape x:NxCxHxW"
    )
    assert result.stderr.count("\n") == 1
