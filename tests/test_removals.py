"""Only a few modules remove or replace files, or write past the publication: each with its proof.

docs/testing.md says what proves that a file may go. A new call stands in a module of this list, or comes with a
proof of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import nodes_of

ONLY_FILES_HAVE = {
    "removedirs",
    "rename",
    "renames",
    "rmdir",
    "rmtree",
    "unlink",
    "ftruncate",
    "write_text",
    "write_bytes",
}
ONLY_FILES_HAVE |= {"copyfile", "copy2", "copytree", "symlink", "symlink_to", "link", "hardlink_to", "touch"}
ONLY_FILES_HAVE |= {"savez", "savez_compressed"}
TEMPORARY = {"TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp"}
"""Calls that count where they name a folder: elsewhere, this process has made what they remove."""
OTHERS_HAVE = frozenset(("copy", "move", "remove", "replace"))
"""Calls that count where they are those of ``os`` and ``shutil``."""
ALLOWED = {
    "converter/front/batch/cache.py": {"touch"},
    "converter/front/batch/prune.py": {"unlink"},
    "converter/files/companions/pinning.py": {"open for writing"},
    "converter/serving/deepstream/folder.py": {"write_bytes"},  # in the stage of a new folder
    "converter/showing/page/graphviz_js.py": {"replace", "open for writing"},
    "caffe_proto/weights/state_dict.py": {"open for writing"},  # in an archive
    "converter/checking/selftest/goldens.py": {"write_bytes"},  # in the folder of the selftest
    "converter/checking/selftest/nets.py": {"write_text"},
    "converter/files/signatures/feeds.py": {"open for writing"},  # in an archive
    "converter/serving/triton/repository.py": {
        "copyfile",
        "write_bytes",
        "write_text",
    },  # in the stage of a new folder
    "converter/files/writing/publication.py": {
        *(
            "copy2",
            "link",
            "open for writing",
            "replace",
            "rmdir",
            "rmtree",
            "symlink",
            "symlink_to",
            "touch",
            "unlink",
        )
    },
    "converter/files/writing/side_files.py": {"unlink"},
    "docs/make_man.py": {"write_text"},
    "docs/make_release.py": {"open for writing", "write_text"},
    "docs/make_sbom.py": {"write_text"},
    "docs/make_site.py": {"copyfile", "open for writing", "rename", "rmtree", "touch", "write_text"},
}
"""By module, the calls that it may have."""


def sources() -> Iterator[Path]:
    for path in ROOT.rglob("*.py"):
        folder = path.relative_to(ROOT).parts[0]
        if not folder.startswith(".") and folder not in ("tests", "samples", "build", "dist"):
            yield path


def calls(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What in the nodes of a source removes, replaces or writes files by its name, or by what is asked of ``open``."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
            yield from {alias.name for alias in node.names} & (ONLY_FILES_HAVE | OTHERS_HAVE)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, getattr(node.func.value, "id", "")
            is_replaced = (
                name == "replace" and len(node.args) == 1 and not node.keywords
            )  # texts have two arguments
            of_files = name in OTHERS_HAVE and owner in ("os", "shutil")
            is_placed = name in TEMPORARY and any(keyword.arg == "dir" for keyword in node.keywords)
            if name in ONLY_FILES_HAVE or of_files or is_replaced or is_placed:
                yield name
        if isinstance(node, ast.Call) and _opens_for_writing(node):
            yield "open for writing"


def _opens_for_writing(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return name == "open" and any(map(_is_mode_of_writing, arguments))


def _is_mode_of_writing(argument: ast.expr) -> bool:
    mode = getattr(argument, "value", None)
    return (
        isinstance(mode, str) and 0 < len(mode) <= 3 and bool({*mode} & {*"wax+"}) and {*mode} <= {*"rwaxbt+"}
    )


def test_no_other_module_removes_or_writes_files() -> None:
    found = {str(path.relative_to(ROOT)): {*calls(nodes_of(path))} for path in sources()}
    assert {path: more for path, names in found.items() if (more := names - ALLOWED.get(path, set()))} == {}
    assert not ALLOWED.keys() - found.keys()


@pytest.mark.parametrize(
    "call",
    [
        *(
            "os.remove(a)",
            "a.unlink()",
            "shutil.rmtree(a)",
            "from shutil import rmtree",
            "os.replace(a, b)",
            "a.replace(b)",
        ),
        *("a.rename(b)", "tempfile.TemporaryDirectory(dir=a)", "shutil.move(a, b)", "a.rmdir()"),
        *("a.write_text(b)", "open(a, 'w')", "a.open('xb')", "open(a, mode='r+b')", "shutil.copy2(a, b)"),
    ],
)
def test_what_counts(call: str) -> None:
    assert len([*calls(ast.walk(ast.parse(call)))]) == 1


@pytest.mark.parametrize(
    "call",
    [
        *(
            "text.replace('a', 'b')",
            "replace(options, a=1)",
            "date.replace(tzinfo=None)",
            "open(a)",
            "a.open('rb')",
        ),
        *(
            "files.create(a)",
            "dataclasses.replace(a, b=1)",
            "names.remove(a)",
            "tempfile.TemporaryDirectory()",
            "state.move(a, b)",
        ),
    ],
)
def test_what_does_not_count(call: str) -> None:
    assert not [*calls(ast.walk(ast.parse(call)))]
