"""What is installed is what is in the tree."""

from __future__ import annotations

import configparser
import gzip
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import prototrt
from prototrt.converter.showing.page.graphviz_js import OPT_OUT
from prototrt.tests.fresh_python import ROOT, run_python

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
    assert sorted(path.name for path in ROOT.glob("*.py")) == [
        "__init__.py",
        "__main__.py",
        "cli.py",
        "setup.py",
    ]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel, twice: of two copies of the tree, since setuptools leaves a build folder where it works."""
    return [build_wheel(tmp_path_factory.mktemp("clone")) for _ in range(2)]


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    tree = folder / "wheel"
    shutil.copytree(source, tree, ignore=shutil.ignore_patterns(".*", "build", "dist", "samples", "tests"))
    for path in tree.rglob("*.py"):
        os.utime(path)  # a clone of now
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(tree)]
    subprocess.run(
        build, check=True, cwd=folder, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", OPT_OUT: "1"}
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution of a copy of the tree."""
    folder = tmp_path_factory.mktemp("sdist")
    tree = folder / "tree"
    shutil.copytree(
        ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "build", "dist"), symlinks=True
    )
    build = "from setuptools.build_meta import build_sdist; build_sdist('..')"
    subprocess.run([sys.executable, "-c", build], check=True, cwd=tree, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.mark.slow
def test_the_source_distribution_is_the_repository(source_distribution: Path) -> None:
    """Docs, samples, tests and goldens are in it; only what is git's is not."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=False, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("needs a clone, whose files git lists")
    left_out = [name for name in listed.stdout.splitlines() if not (source_distribution / name).exists()]
    assert sorted(left_out) == [".dev/prototrt", ".gitignore"]


@pytest.mark.exhaustive
def test_the_source_distribution_makes_the_same_wheel(source_distribution: Path, wheels: list[Path]) -> None:
    again = build_wheel(source_distribution.parent, source_distribution)
    first, second = (set(zipfile.ZipFile(wheel).namelist()) for wheel in (wheels[0], again))
    assert first == second


@pytest.mark.exhaustive
@pytest.mark.slow
def test_wheels_of_two_clones_are_the_same_byte_for_byte(wheels: list[Path]) -> None:
    first, second = (wheel.read_bytes() for wheel in wheels)
    assert first == second


@pytest.mark.slow
def test_wheel_has_modules_and_data(wheels: list[Path]) -> None:
    names = set(zipfile.ZipFile(wheels[0]).namelist())
    wanted = {f"prototrt/{path.relative_to(ROOT)}" for part in PARTS for path in (ROOT / part).rglob("*.py")}
    wanted |= {"prototrt/__init__.py", "prototrt/__main__.py", "prototrt/cli.py", "prototrt/py.typed"}
    wanted |= {f"prototrt/caffe_proto/{name}" for name in ("caffe.proto", "caffe.binpb")}
    page = [
        path
        for path in (ROOT / "converter" / "showing" / "page").rglob("*")
        if path.suffix in (".css", ".j2", ".js")
    ]
    wanted |= {f"prototrt/{path.relative_to(ROOT)}" for path in page}
    wanted |= {f"prototrt/plugins/tile/{name}" for name in ("tile.cu", "tile_thread.h", "tile.ptx")}
    assert wanted <= names
    others = ("prototrt/tests", "prototrt/samples", "prototrt/setup.py")
    assert not [name for name in names if name.startswith(others)]


@pytest.mark.parametrize(
    ("system", "machine", "python", "expected"),
    [
        ("linux", "x86_64", "3.10", True),
        ("linux", "aarch64", "3.14", True),
        ("win32", "AMD64", "3.12", True),
        ("win32", "ARM64", "3.12", True),
        ("darwin", "arm64", "3.12", False),
        ("darwin", "x86_64", "3.12", False),
        ("linux", "ppc64le", "3.12", False),
        ("linux", "x86_64", "3.15", False),
    ],
)
def test_tensorrt_is_required_where_it_has_wheels(
    system: str, machine: str, python: str, expected: bool, config: configparser.ConfigParser
) -> None:
    """Its releases of 1.7 have wheels for these systems, and for Python up to 3.14."""
    packaging = pytest.importorskip("packaging.requirements", reason="reads requirements")
    lines = [
        line for line in config["options"]["install_requires"].split("\n") if line.startswith("tensorrt")
    ]
    (marker,) = [packaging.Requirement(line).marker for line in lines]
    environment = {"sys_platform": system, "platform_machine": machine, "python_version": python}
    assert marker.evaluate(environment) is expected


def test_no_text_installs_whatever_an_index_has_under_this_name() -> None:
    """prototrt is in no index, so anybody could register the name."""
    texts = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    texts += [
        *ROOT.glob("*.md"),
        *ROOT.glob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "samples").rglob("*"),
    ]
    bare = re.compile(r"pip install [^\n`]*(?<![\w/.])prototrt\b(?! *(\[[\w,]+\] *)?@)")
    found = [
        path for path in texts if path.is_file() and bare.search(path.read_bytes().decode(errors="replace"))
    ]
    assert found == []


LOCKED = {"dev": ("dev",), "run": ("batch", "onnx")}
"""By lock file, the extras that it installs."""


def locked(name: str) -> dict[str, list[str]]:
    """The hashes of each package and version, as in ``numpy==2.4.6``; a package may have several, each for a Python."""
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    entries = re.findall(
        r"^([\w.-]+==[\w.+]+)[^\n]*((?:\n +--hash=sha256:[0-9a-f]{64}(?: \\)?)*)$", text, re.MULTILINE
    )
    assert len(entries) == len(re.findall(r"^\w", text, re.MULTILINE))
    return {entry: hashes.split() for entry, hashes in entries}


@pytest.mark.parametrize("name", LOCKED)
def test_lock_files_have_what_is_required(name: str, config: configparser.ConfigParser) -> None:
    """Each requirement, in a version that it allows; `make lock` repairs it."""
    packaging = pytest.importorskip("packaging.requirements", reason="reads requirements")
    sections = [config["options"]["install_requires"]]
    sections += [config["options.extras_require"][extra] for extra in LOCKED[name]]
    found = [entry.split("==") for entry in locked(name)]
    for line in "\n".join(sections).split("\n"):
        if not line or line.startswith("#"):
            continue
        wanted = packaging.Requirement(line)
        versions = [version for package, version in found if package == wanted.name.lower().replace("_", "-")]
        assert any(wanted.specifier.contains(version) for version in versions), line


@pytest.mark.parametrize("name", LOCKED)
def test_lock_files_have_hashes_and_name_no_index(name: str) -> None:
    assert [entry for entry, hashes in locked(name).items() if not hashes] == []
    assert not re.search(r"://|^-|--index|--find", (ROOT / "locks" / f"{name}.txt").read_text(), re.MULTILINE)


@pytest.mark.exhaustive
def test_the_bill_of_materials_names_what_the_wheel_consists_of(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx_py", reason="writes CycloneDX")
    graphviz = ROOT / "converter" / "showing" / "page" / "vendor" / "graphviz.js"
    if not graphviz.exists():
        pytest.skip("needs Graphviz for browsers: make vendor")
    wheel = tmp_path / f"prototrt-{prototrt.__version__}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    texts = []
    for _ in range(2):
        run_python(ROOT / "docs" / "make_sbom.py", tmp_path)
        texts.append((tmp_path / f"prototrt-{prototrt.__version__}.cdx.json").read_text())
    assert texts[0] == texts[1]
    bill = json.loads(texts[0])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    whole = bill["metadata"]["component"]
    assert (whole["name"], whole["hashes"][0]["content"]) == (
        "prototrt",
        hashlib.sha256(b"a wheel").hexdigest(),
    )
    named = {item["purl"]: item["hashes"] for item in bill["components"] if "hashes" in item}
    assert named["pkg:npm/%40hpcc-js/wasm-graphviz@1.29.2"] == [
        {"alg": "SHA-256", "content": hashlib.sha256(graphviz.read_bytes()).hexdigest()}
    ]
    assert {f"pkg:pypi/{entry.replace('==', '@')}" for entry in locked("run")} <= {
        item["purl"] for item in bill["components"]
    }


def make_release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_release", ROOT / "docs" / "make_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENTRIES = "".join(f"- entry {number}\n" for number in range(10))


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        (f"## 1.2.0, 2026-01-31\n\n{ENTRIES}\n### Details\n\n- more\n", None),
        (
            f"## 1.2.0, 2026-01-31\n\n{ENTRIES}- one more\n\n### Details\n",
            "sums 1.2.0 up in 11 entries, not 1 to 10",
        ),
        ("## 1.2.0, 2026-01-31\n\n### Details\n\n- more\n", "sums 1.2.0 up in 0 entries, not 1 to 10"),
        (f"## Unreleased\n\n{ENTRIES}\n### Details\n", "has no section '## 1.2.0, YYYY-MM-DD'"),
    ],
    ids=["sound", "long", "without", "unreleased"],
)
def test_a_release_is_summed_up(section: str, fault: str | None) -> None:
    expected = None if fault is None else f"CHANGELOG.md {fault}"
    assert make_release().changelog_fault(f"# Changelog\n\n{section}", "1.2.0") == expected


def test_the_changelog_has_this_version() -> None:
    assert make_release().changelog_fault((ROOT / "CHANGELOG.md").read_text(), prototrt.__version__) is None


def test_archives_of_two_clones_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    """Other times, owners and another order, but the same archive."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone: the time is that of the commit")
    archives = [tmp_path / name for name in ("first.tar.gz", "second.tar.gz")]
    for number, archive in enumerate(archives):
        folder = tmp_path / str(number) / "prototrt-1"
        folder.mkdir(parents=True)
        for name in sorted("abc", reverse=number > 0):
            (folder / name).write_text(name)
            os.utime(folder / name, (number, number))
        with tarfile.open(archive, "w:gz") as packed:
            for path in sorted(folder.iterdir(), reverse=number > 0):
                packed.add(path, f"prototrt-1/{path.name}")
    assert archives[0].read_bytes() != archives[1].read_bytes()
    for archive in archives:
        make_release().repack(archive)
    contents = [gzip.decompress(archive.read_bytes()) for archive in archives]
    assert contents[0] == contents[1]
    with tarfile.open(archives[0]) as packed:
        assert packed.getnames() == ["prototrt-1/a", "prototrt-1/b", "prototrt-1/c"]
