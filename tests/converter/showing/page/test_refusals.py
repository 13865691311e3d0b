"""What makes no page: no Graphviz, and files that are no verification."""

from __future__ import annotations

from pathlib import Path

import pytest

from prototrt.tests.command_line import DEPLOY
from prototrt.tests.converter.showing.page.opened import dot


def test_graphviz_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.converter.showing.page.writing.GRAPHVIZ", tmp_path / "graphviz.js")
    result = dot(DEPLOY, "-o", str(tmp_path / "net.html"))
    assert result.exit_code == 3
    assert result.stderr == (
        f"error: {tmp_path / 'graphviz.js'}: a page needs Graphviz for browsers, which is missing\n"
        "  fix: install npm, and then prototrt again, with pip's --force-reinstall and --no-cache-dir; in a clone,"
        " run `make vendor`\n"
    )
    assert not (tmp_path / "net.html").exists()


ROW = (
    '{"holds": true, "comparisons": [{"way": "onnx", "against": "reference", "blob": "x", "layer": null,'
    ' "max_abs": %s, "max_rel": 0.0, "rms": 0.0, "cosine": 1.0, "holds": %s}]}'
)
NO_VERIFICATION = "does not contain a verification\n  fix: give the JSON of `prototrt verify`"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[",
            "cannot be read as JSON: Expecting value: line 1 column 2 (char 1)\n"
            "  fix: give the JSON of `prototrt verify`",
        ),
        ("{}", NO_VERIFICATION),
        ('{"holds": true, "comparisons": 5}', NO_VERIFICATION),
        ('{"comparisons": []}', NO_VERIFICATION),
        (ROW % ("0.1", "1"), NO_VERIFICATION),
        (ROW % ("0.1", '"yes"'), NO_VERIFICATION),
        (ROW % ("9" * 400, "true"), NO_VERIFICATION),
        (
            ROW % ("9" * 5000, "true"),
            "cannot be read as JSON: a number in it has too many digits\n"
            "  fix: give the JSON of `prototrt verify`",
        ),
        (ROW % ("1e999", "true"), NO_VERIFICATION),
        (ROW % ("NaN", "true"), NO_VERIFICATION),
        ('{"holds": true, "comparisons": [1, 2]}', NO_VERIFICATION),
        ('{"holds": true, "comparisons": [{"way": "onnx", "max_abs": "large"}]}', NO_VERIFICATION),
        (
            "[" * 100_000,
            "cannot be read as JSON: it is nested too deeply\n  fix: give the JSON of `prototrt verify`",
        ),
    ],
)
def test_checks_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    checks = tmp_path / "checks.json"
    checks.write_text(text)
    result = dot(DEPLOY, "-o", str(tmp_path / "net.html"), "--verification", str(checks))
    assert (result.exit_code, result.stderr) == (3, f"error: {checks}: {message}\n")


def test_only_what_a_page_shows_is_read(tmp_path: Path) -> None:
    """The rest may be nested as deeply as JSON is read, and names may hold halves of characters."""
    checks = tmp_path / "checks.json"
    deep = '"more": ' + "[" * 900 + "]" * 900
    text = (ROW % ("0.1", "true")).replace('"blob": "x"', '"blob": "\\ud800"')
    checks.write_text(text.replace("{", f"{{{deep}, ", 1))
    result = dot(DEPLOY, "-o", str(tmp_path / "net.html"), "--verification", str(checks))
    assert (result.exit_code, result.stderr) == (0, "")


def test_checks_that_are_not_there(tmp_path: Path) -> None:
    result = dot(DEPLOY, "-o", str(tmp_path / "net.html"), "--verification", "nowhere.json")
    assert (result.exit_code, result.stderr) == (
        3,
        "error: nowhere.json: there is no such file\n"
        f"  fix: check the path; the current folder is {Path.cwd()}\n",
    )
