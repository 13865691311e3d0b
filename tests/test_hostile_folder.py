"""What lies in the current folder is data: no command, and no process that it starts, imports it.

The variable that keeps the folder out is removed: Python 3.10 does not know it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import prototrt
from prototrt.converter.running import processes
from prototrt.tests.converter.front.batch.support import NET

ROOT = Path(__file__).parents[1]
HOSTILE = {
    "atexit",
    "click",
    "concurrent",
    "contextvars",
    "ctypes",
    "dataclasses",
    "google",
    "hashlib",
    "json",
}
HOSTILE |= {
    "logging",
    "mmap",
    "numpy",
    "onnx",
    "pickle",
    "random",
    "rich",
    "shutil",
    "signal",
    "socket",
    "struct",
}
HOSTILE |= {"subprocess", "tempfile", "threading", "torch", "typing", "uuid", "yaml", "zipfile"}
INSTALLED = "from prototrt.__main__ import {0}_main; {0}_main()"
ONNX = ("net.prototxt", "--random-weights", "1", "-o", "net.onnx")
COMMANDS = {
    "convert": ("convert", *ONNX),
    "batch": ("batch", "models.yaml", "-o", "out"),
    "layers": ("layers",),
    "selftest": ("selftest", "--only", "reference"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "hostile"
    place.mkdir()
    for name in HOSTILE:
        (place / f"{name}.py").write_text(f"open('fell', 'a').write('{name} ')")
    (place / "net.prototxt").write_text(NET)
    (place / "models.yaml").write_text(
        "models:\n- {prototxt: net.prototxt, format: onnx, random-weights: 1}\n"
    )
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / ".dev"))
    monkeypatch.chdir(place)
    return place


def python(*arguments: str | Path) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert not Path("fell").exists(), Path("fell").read_text()
    assert done.returncode == 0, done.stderr


def installed(name: str, folder: Path) -> Path:
    """A program as pip installs it: Python finds modules beside it."""
    program = folder.parent / name
    program.write_text(INSTALLED.format(name))
    return program


@pytest.mark.parametrize("command", ["layers", "batch", pytest.param("selftest", marks=pytest.mark.slow)])
def test_the_installed_program(command: str, folder: Path) -> None:
    python(installed("prototrt", folder), *COMMANDS[command])


def test_the_installed_converter(folder: Path) -> None:
    python(installed("convert", folder), *ONNX)


@pytest.mark.parametrize("command", ["convert", pytest.param("batch", marks=pytest.mark.slow)])
def test_the_module(command: str) -> None:
    """Python itself reads some modules before ours; they are not among the hostile ones."""
    python("-m", "prototrt", *COMMANDS[command])


def search_path_of_child() -> Sequence[str]:
    command = processes.python_command("print(*sys.path, sep='\\n'); print(*sys.argv[1:])", "a word", "b")
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines.pop() == "a word b"
    return lines


@pytest.mark.parametrize("here", ["", ".", "{folder}", "{link}"])
def test_a_child_finds_what_its_parent_finds_but_for_the_current_folder(
    here: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    before = [*sys.path]
    monkeypatch.setattr(sys, "path", [here.format(folder=folder, link=link), *before, "nowhere.zip", "a 'b"])
    assert search_path_of_child() == [*filter(None, before), "nowhere.zip", "a 'b"]


def test_a_package_in_the_current_folder_is_found_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / ".dev")
    monkeypatch.setattr(prototrt, "__file__", str(ROOT / ".dev" / "prototrt" / "__init__.py"))
    others = [name for name in sys.path if name and os.path.realpath(name) != os.getcwd()]
    monkeypatch.setattr(sys, "path", ["", *others])
    assert search_path_of_child() == [*others, str(ROOT / ".dev")]
