"""Builds fetch Graphviz for browsers: with its hash, from the registry that npm would ask, and never for long."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread

import pytest

from prototrt.converter.page import graphviz_js
from prototrt.converter.page.graphviz_js import NotFetchedError, fetch, is_there, provide
from prototrt.tests.fresh_python import ROOT

CONTENT = {"LICENSE": b"Do what you want.", "graphviz.js": b"export const dot = 1;"}
FILES = dict(graphviz_js.FILES)
"""As they are in the source, also while a test replaces them."""
REGISTRY = "npm_config_registry"
ARCHIVE = f"{graphviz_js.PACKAGE}/-/wasm-graphviz-{graphviz_js.VERSION}.tgz"
"""Where npm's registry, and each mirror of it, has the archive."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:  # noqa: A002  the name in the base class
        pass


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The archive of a server on this machine, which has small files under the hashes of the true ones."""
    served = tmp_path / "served"
    path = served / ARCHIVE
    path.parent.mkdir(parents=True)
    write(path, CONTENT)
    hashes = {
        name: (inside, hashlib.sha256(CONTENT[name]).hexdigest())
        for name, (inside, _) in graphviz_js.FILES.items()
    }
    monkeypatch.setattr(graphviz_js, "FILES", hashes)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(REGISTRY, f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.delenv(graphviz_js.OPT_OUT, raising=False)
        yield path
        server.shutdown()


def write(path: Path, content: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, (inside, _) in graphviz_js.FILES.items():
            if name in content:
                member = tarfile.TarInfo(inside)
                member.size = len(content[name])
                archive.addfile(member, BytesIO(content[name]))


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_files_are_fetched_once(mirror: Path, tmp_path: Path) -> None:
    told: list[str] = []
    provide(told.append, tmp_path / "vendor")
    assert read(tmp_path / "vendor") == CONTENT
    mirror.unlink()
    provide(told.append, tmp_path / "vendor")
    assert told == []


def test_files_of_another_version_are_replaced(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "graphviz.js").write_text("export const dot = 0;")
    assert not is_there(tmp_path / "vendor")
    fetch(tmp_path / "vendor")
    assert read(tmp_path / "vendor") == CONTENT


@pytest.mark.parametrize("name", [REGISTRY.upper(), REGISTRY])
def test_the_registry_is_npms(
    name: str, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = os.environ[REGISTRY]
    monkeypatch.delenv(REGISTRY)
    assert graphviz_js._registry() == "https://registry.npmjs.org"
    monkeypatch.setenv(name, registry)
    fetch(tmp_path / "vendor")
    assert is_there(tmp_path / "vendor")


def test_a_build_may_be_told_to_leave_it_out(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(graphviz_js.OPT_OUT, "1")
    told: list[str] = []
    provide(told.append, tmp_path / "vendor")
    assert (told, (tmp_path / "vendor").exists()) == ([], False)


FAULTS = {
    "not there": (None, "cannot be read: HTTP Error 404: File not found"),
    "no archive": (b"<html>", "is not the archive of the package: not a gzip file"),
    "cut short": (b"\x1f\x8b\x08\x00", "is not the archive of the package: "),
    "a file is missing": (
        {"LICENSE": CONTENT["LICENSE"]},
        "is not the archive of the package: \"filename 'package/dist/index.js' not found\"",
    ),
    "another file": (
        {**CONTENT, "graphviz.js": b"steal()"},
        f"has another graphviz.js than version {graphviz_js.VERSION}: its SHA-256 differs",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_is_told_in_one_line_and_writes_nothing(fault: str, mirror: Path, tmp_path: Path) -> None:
    content, message = FAULTS[fault]
    mirror.unlink()
    if isinstance(content, bytes):
        mirror.write_bytes(content)
    elif content is not None:
        write(mirror, content)
    told: list[str] = []
    provide(told.append, tmp_path / "vendor")
    (line,) = told
    url = f"{os.environ[REGISTRY]}{ARCHIVE}"
    assert line.startswith(
        f"Graphviz for browsers is left out, which `prototrt dot -o net.html` needs: {url} {message}"
    )
    assert "\n" not in line
    assert not (tmp_path / "vendor").exists()


def test_a_folder_that_cannot_be_written(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "vendor").write_text("a file")
    with pytest.raises(NotFetchedError, match=r"vendor cannot be written: File exists$"):
        fetch(tmp_path / "vendor")


def test_nothing_waits_for_a_server_that_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is accepted by the system, and no answer follows."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(REGISTRY, f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "*")
        with pytest.raises(
            NotFetchedError, match=r"(did not answer within 0\.1 s|cannot be read: timed out)$"
        ):
            fetch(tmp_path / "vendor", seconds=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_build_packs_what_it_fetches_and_goes_on_without(
    is_reachable: bool, mirror: Path, tmp_path: Path
) -> None:
    """By setup.py, as pip runs it, in a clone that has no Graphviz."""
    tree = tmp_path / "tree"
    left_out = shutil.ignore_patterns(".*", "build", "dist", "docs", "samples", "tests", "vendor")
    shutil.copytree(ROOT, tree, ignore=left_out)
    module = tree / "converter" / "page" / "graphviz_js.py"
    text = module.read_text()
    for name, (_, digest) in FILES.items():
        text = text.replace(digest, hashlib.sha256(CONTENT[name]).hexdigest())
    module.write_text(text)
    if not is_reachable:
        mirror.unlink()
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=tree, check=True, capture_output=True, text=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist() if "/vendor/" in name}
    assert names == ({*CONTENT} if is_reachable else set())
    assert (done.stdout + done.stderr).count("Graphviz for browsers is left out") == (not is_reachable)
