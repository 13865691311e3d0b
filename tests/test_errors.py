"""What a user reads when a model cannot be converted: whole messages, and nothing left behind.

A folder under goldens/errors holds the expected ``stderr.txt``, and the broken model: as
``net.prototxt`` (with random weights, or with what ``options.txt`` says), or under the same
name among the models that real Caffe refused, goldens/bad. ``command.txt`` replaces all arguments.
"""

from __future__ import annotations

import json
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


def lines_of(folder: Path, *options: str) -> list[str]:
    """What a net whose layers read 150 blobs that no layer makes tells on stderr."""
    net = folder / "net.prototxt"
    layer = 'layer {{ name: "l{0}" type: "ReLU" bottom: "none{0}" top: "t{0}" }}'
    net.write_text("\n".join(layer.format(number) for number in range(150)))
    result = CliRunner().invoke(main, ["inspect", *options, str(net)])
    assert result.exit_code == 3
    return (result.stderr if "--json" not in options else result.stdout).splitlines()


def test_many_problems_are_told_in_part(tmp_path: Path) -> None:
    shown = lines_of(tmp_path)
    assert shown[-2:] == ["and 130 more", "150 problems"]
    assert len(shown) < 100
    everything = "\n".join(lines_of(tmp_path, "--debug"))
    assert all(f'layer "l{number}"' in everything for number in range(150))
    assert len(json.loads("\n".join(lines_of(tmp_path, "--json")))["error"]["problems"]) == 150
