"""What a user reads when a model cannot be converted: whole messages, and nothing left behind.

A folder under goldens/errors holds the expected ``stderr.txt``, and the broken model: as
``net.prototxt`` (with random weights, or with what ``options.txt`` says), or under the same
name among the models that real Caffe refused, goldens/bad. ``command.txt`` replaces all arguments.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototrt.cli import main
from prototrt.tests.golden_cases import GOLDENS

ERRORS = GOLDENS / "errors"
BAD = GOLDENS / "bad"
CASES = sorted(
    {path.name for path in BAD.iterdir() if path.is_dir()} | {path.name for path in ERRORS.iterdir()}
)


def arguments(case: str, folder: Path) -> list[str]:
    """Put the broken model into the folder, and say how to convert it."""
    if (BAD / case).is_dir():
        shutil.copytree(BAD / case, folder, dirs_exist_ok=True)
        return ["model.prototxt", "model.caffemodel"]
    shutil.copytree(ERRORS / case, folder, dirs_exist_ok=True)
    if (folder / "command.txt").exists():
        return (folder / "command.txt").read_text().split()
    options = folder / "options.txt"
    return ["net.prototxt", *(options.read_text().split() if options.exists() else ["--random-weights", "1"])]


@pytest.mark.parametrize("case", CASES)
def test_message(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_text: Callable[[Path, str], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["convert", *arguments(case, tmp_path), "-o", "engine.plan"]
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    assert sorted(tmp_path.iterdir()) == before, "a failed run leaves nothing behind"
    check_text(ERRORS / case / "stderr.txt", result.stderr)
