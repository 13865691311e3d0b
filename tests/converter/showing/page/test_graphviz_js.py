"""Builds let npm fetch Graphviz for browsers: with its hash, and never for long."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from prototrt.converter.showing.page import graphviz_js
from prototrt.converter.showing.page.graphviz_js import NotFetchedError, fetch, is_there, provide
from prototrt.tests.fresh_python import ROOT

CONTENT = {"LICENSE": b"Do what you want.", "graphviz.js": b"export const dot = 1;"}
FILES = dict(graphviz_js.FILES)
"""As they are in the source, also while a test replaces them."""
ARCHIVE = "package.tgz"


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an npm of ours brings: small files under the hashes of the true ones."""
    path = tmp_path / ARCHIVE
    write(path, CONTENT)
    hashes = {
        name: (inside, hashlib.sha256(CONTENT[name]).hexdigest())
        for name, (inside, _) in graphviz_js.FILES.items()
    }
    monkeypatch.setattr(graphviz_js, "FILES", hashes)
    monkeypatch.delenv(graphviz_js.OPT_OUT, raising=False)
    npm(f'test "$1 $5" = "pack {graphviz_js.PACKAGE}@{graphviz_js.VERSION}" && cp {path} "$4"', tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return path


def npm(script: str, folder: Path) -> None:
    program = folder / "bin" / "npm"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def write(path: Path, content: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, (inside, _) in graphviz_js.FILES.items():
            if name in content:
                member = tarfile.TarInfo(inside)
                member.size = len(content[name])
                archive.addfile(member, BytesIO(content[name]))


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_files_are_fetched_once(packed: Path, tmp_path: Path) -> None:
    told: list[str] = []
    provide(told.append, tmp_path / "vendor")
    assert read(tmp_path / "vendor") == CONTENT
    packed.unlink()
    provide(told.append, tmp_path / "vendor")
    assert told == []


def test_files_of_another_version_are_replaced(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "graphviz.js").write_text("export const dot = 0;")
    assert not is_there(tmp_path / "vendor")
    fetch(tmp_path / "vendor")
    assert read(tmp_path / "vendor") == CONTENT


def test_a_build_may_be_told_to_leave_it_out(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(graphviz_js.OPT_OUT, "1")
    told: list[str] = []
    provide(told.append, tmp_path / "vendor")
    assert (told, (tmp_path / "vendor").exists()) == ([], False)


FAULTS = {
    "not there": (
        None,
        f"`npm pack {graphviz_js.PACKAGE}@{graphviz_js.VERSION}` failed with exit code 1",
    ),
    "no archive": (b"<html>", "npm did not bring the archive of the package: not a gzip file"),
    "cut short": (b"\x1f\x8b\x08\x00", "npm did not bring the archive of the package: "),
    "a file is missing": (
        {"LICENSE": CONTENT["LICENSE"]},
        "npm did not bring the archive of the package: \"filename 'package/dist/index.js' not found\"",
    ),
    "another file": (
        {**CONTENT, "graphviz.js": b"steal()"},
        f"npm brought another graphviz.js than that of version {graphviz_js.VERSION}: its SHA-256 differs",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_is_told_in_one_line_and_writes_nothing(fault: str, packed: Path, tmp_path: Path) -> None:
    content, message = FAULTS[fault]
    packed.unlink()
    if isinstance(content, bytes):
        packed.write_bytes(content)
    elif content is not None:
        write(packed, content)
    told: list[str] = []
    provide(told.append, tmp_path / "vendor")
    (line,) = told
    assert line.startswith(f"Graphviz for browsers is left out, which pages of nets need: {message}")
    assert "\n" not in line
    assert not (tmp_path / "vendor").exists()


def test_a_machine_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFetchedError, match=r"^npm, which fetches it, is not installed$"):
        fetch(tmp_path / "vendor")


def test_a_folder_that_cannot_be_written(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "vendor").write_text("a file")
    with pytest.raises(NotFetchedError, match=r"vendor cannot be written: File exists$"):
        fetch(tmp_path / "vendor")


def test_nothing_waits_for_an_npm_that_hangs(packed: Path, tmp_path: Path) -> None:
    npm("sleep 1000", tmp_path)
    with pytest.raises(NotFetchedError, match=r"^`npm pack` took more than 0\.1 s$"):
        fetch(tmp_path / "vendor", seconds=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_build_packs_what_it_fetches_and_goes_on_without(
    is_reachable: bool, packed: Path, tmp_path: Path
) -> None:
    """By setup.py, as pip runs it, in a clone that has no Graphviz."""
    tree = tmp_path / "tree"
    left_out = shutil.ignore_patterns(".*", "build", "dist", "docs", "samples", "tests", "vendor")
    shutil.copytree(ROOT, tree, ignore=left_out)
    module = tree / "converter" / "showing" / "page" / "graphviz_js.py"
    text = module.read_text()
    for name, (_, digest) in FILES.items():
        text = text.replace(digest, hashlib.sha256(CONTENT[name]).hexdigest())
    module.write_text(text)
    if not is_reachable:
        packed.unlink()
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=tree, check=True, capture_output=True, text=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist() if "/vendor/" in name}
    assert names == ({*CONTENT} if is_reachable else set())
    assert (done.stdout + done.stderr).count("Graphviz for browsers is left out") == (not is_reachable)
