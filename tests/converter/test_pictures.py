"""Pictures in files, by Graphviz's program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototrt.caffe_proto.errors import ConversionError
from prototrt.cli import main
from prototrt.converter.pictures import rendered
from prototrt.tests.command_line import DEPLOY


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
@pytest.mark.parametrize(
    ("suffix", "begins"),
    [(".svg", b"<?xml"), (".PNG", b"\x89PNG"), (".pdf", b"%PDF"), (".dot", b'digraph "')],
)
def test_the_suffix_says_what_is_made(tmp_path: Path, suffix: str, begins: bytes) -> None:
    target = tmp_path / f"net{suffix}"
    result = CliRunner().invoke(main, ["dot", DEPLOY, "--stage", "rewritten", "-o", str(target)])
    assert result.exit_code == 0, result.output
    assert target.read_bytes().startswith(begins)


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
        rendered("digraph {", ".svg", "net.svg")
    first, because, fix = str(raised.value).splitlines()
    assert first == "net.svg: Graphviz's program dot failed with exit code 1"
    assert because.startswith("  because Error: ")
    assert fix == "  fix: write .dot, and open it with another program"
