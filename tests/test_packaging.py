"""What is installed is what is in the tree."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("caffe_proto", "converter", "plugins", "surgery")


@pytest.fixture(scope="module")
def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg")
    return parser


def test_packages_are_those_of_the_tree(config: configparser.ConfigParser) -> None:
    folders = {path.parent for part in PARTS for path in (ROOT / part).rglob("*.py")}
    found = {".".join(("prototrt", *folder.relative_to(ROOT).parts)) for folder in folders}
    assert set(config["options"]["packages"].split()) == {"prototrt", *found}


def test_every_package_has_an_init() -> None:
    folders = {path.parent for part in PARTS for path in (ROOT / part).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_root_ships_only_the_package_and_its_commands() -> None:
    assert sorted(path.name for path in ROOT.glob("*.py")) == ["__init__.py", "cli.py"]


@pytest.mark.slow
def test_wheel_has_modules_and_data(tmp_path: Path) -> None:
    tree = tmp_path / "tree"  # a copy: setuptools leaves a build folder where it works
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "build", "samples", "tests"))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(tree)]
    subprocess.run(build, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"prototrt/{path.relative_to(ROOT)}" for part in PARTS for path in (ROOT / part).rglob("*.py")}
    wanted |= {"prototrt/__init__.py", "prototrt/cli.py", "prototrt/py.typed"}
    wanted |= {f"prototrt/caffe_proto/{name}" for name in ("caffe.proto", "caffe.binpb")}
    page = [
        path for path in (ROOT / "converter" / "page").rglob("*") if path.suffix in (".css", ".j2", ".js")
    ]
    wanted |= {f"prototrt/{path.relative_to(ROOT)}" for path in page}
    wanted |= {f"prototrt/plugins/tile/{name}" for name in ("tile.cu", "tile_thread.h", "tile.ptx")}
    assert wanted <= names
    assert not [name for name in names if name.startswith(("prototrt/tests", "prototrt/samples"))]
