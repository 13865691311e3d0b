"""What a message tells a user to install is there: an extra of prototrt, or a package that is known."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import pytest

from prototrt.caffe_proto.common import installing
from prototrt.converter.backends.onnx import programs
from prototrt.converter.backends.tensorrt import api
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import files_with, parsed

_SETUP = ConfigParser()
_SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
EXTRAS = {
    extra: {re.split(r"[<>=!~;\[ ]", line)[0] for line in lines.split("\n") if line}
    for extra, lines in _SETUP["options.extras_require"].items()
}
OTHERS = {
    "onnxruntime-gpu": {"cuda", "cudnn"},
    "opencv-python": set(),
    "openvino": set(),
    "tensorrt-rtx": set(),
}
"""Packages of no extra that users need, and the extras that those have. Each was installed once by this name."""
COMMAND = re.compile(r"pip install (?:--[\w-]+ |\0)*'?(?P<package>[\w.-]+|\0)(?:\[(?P<extras>[\w,]+)\])?")
FILES = [
    path
    for room in ("caffe_proto", "surgery", "plugins", "converter")
    for path in (ROOT / room).rglob("*.py")
]


def trees(text: str) -> dict[Path, ast.Module]:
    return {path: parsed(path) for path in files_with(text, [*FILES, ROOT / "cli.py"])}


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, with a zero in the place of each value."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


@cache
def installs() -> list[tuple[Path, str]]:
    return [
        (path, text)
        for path, tree in trees("pip").items()
        for text in texts(tree)
        if re.search(r"pip install [^.]", text)
    ]


def extras_asked_for() -> Iterator[str]:
    for tree in {**trees("pip_install"), **trees("extra =")}.values():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "pip_install"
            ):
                if isinstance(node.args[0], ast.Constant):
                    yield ast.literal_eval(node.args[0])
            elif (
                isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "extra"
            ):  # in a message of triton
                assert isinstance(node.value, ast.IfExp)
                yield from map(ast.literal_eval, (node.value.body, node.value.orelse))


def is_known(package: str, extras: str | None) -> bool:
    wanted = set(extras.split(",")) if extras else set()
    if package in OTHERS:
        return wanted <= OTHERS[package]
    return not wanted and any(package in packages for packages in EXTRAS.values())


def test_packages_are_known() -> None:
    found = [(path, text, COMMAND.search(text)) for path, text in installs()]
    assert len(found) > 5
    unread = [text for _, text, match in found if match is None]
    assert unread == []
    named = [match for _, _, match in found if match is not None and match["package"] != "\0"]
    assert [match[0] for match in named if not is_known(match["package"], match["extras"])] == []


@pytest.mark.parametrize("package", [*programs.PACKAGES.values(), *api._PACKAGES.values()])
def test_packages_in_tables_are_known(package: str) -> None:
    assert is_known(package, None)


def test_values_in_commands_are_from_tables() -> None:
    """Only the modules whose tables are tested make the name of a package from a value."""
    made = {path for path, text in installs() if (match := COMMAND.search(text)) and match["package"] == "\0"}
    assert {path.name for path in made} == {"programs.py", "api.py"}


def test_extras_are_there() -> None:
    asked = [*extras_asked_for(), *installing._EXTRAS.values()]
    assert {"hdf5", "gpu"} <= {*asked}
    assert {*asked} <= EXTRAS.keys()
