"""Commands that install an extra: from the same place as prototrt, whatever that was."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from prototrt.caffe_proto.common.installing import pip_install
from prototrt.tests.fresh_python import ROOT

REQUIREMENTS = [
    "click>=8.1",
    'Jinja2>=3.1; extra == "html"',
    "PyYAML>=6; extra == 'batch'",
    'distributed>=2024.1; extra == "dask"',
    'PyYAML>=6; extra == "dask"',
]


class Installed:
    """What pip recorded of an installation."""

    requires = REQUIREMENTS

    def __init__(self, recorded: dict[str, Any] | None) -> None:
        self._recorded = recorded

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._recorded is None else json.dumps(self._recorded)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"url": "file://{folder}", "dir_info": {"editable": True}}, "-e '{folder}[html]'"),
        ({"url": "file://{folder}", "dir_info": {}}, "'{folder}[html]'"),
        ({"url": "file://{folder}/p%20q.whl", "archive_info": {}}, "'{folder}/p q.whl[html]'"),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            "'prototrt[html] @ git+https://host/x.git@0a1b'",
        ),
        (
            {"url": "file://{folder}/clone", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            "'{folder}/clone[html]'",
        ),
        ({"url": "file://{folder}", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}, "'Jinja2>=3.1'"),
        ({"url": "https://host/p.whl", "archive_info": {}}, "'prototrt[html] @ https://host/p.whl'"),
        ({"url": "file://{folder}/gone.whl", "archive_info": {}}, "'Jinja2>=3.1'"),
        (None, "'Jinja2>=3.1'"),
    ],
    ids=[
        "editable",
        "folder",
        "wheel",
        "git",
        "clone",
        "bare repository",
        "archive",
        "wheel that is gone",
        "index",
    ],
)
def test_the_command_names_the_same_place(
    recorded: dict[str, Any] | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "setup.cfg").touch()
    (tmp_path / "p q.whl").touch()
    if recorded is not None:
        recorded = {**recorded, "url": recorded["url"].format(folder=tmp_path)}
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(recorded))
    assert pip_install("html") == "pip install " + expected.format(folder=tmp_path)


def test_an_extra_of_several_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(None))
    assert pip_install("dask") == "pip install 'distributed>=2024.1' 'PyYAML>=6'"


def test_a_source_tree_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert pip_install("html") == f"pip install '{ROOT.resolve()}[html]'"


def test_windows_quotes_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(None))
    monkeypatch.setattr("prototrt.caffe_proto.common.installing._ON_WINDOWS", True)
    assert pip_install("html") == 'pip install "Jinja2>=3.1"'
