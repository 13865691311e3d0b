"""docs/design.md names the rooms that there are: every folder of code is in its list, and nothing else is.

Each class and each module that it or the glossary names is there, once.

Decisions have numbers of their own, and what names one finds it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from configparser import ConfigParser
from functools import cache

import pytest

from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import nodes_of

DECISIONS = re.findall(r"^### (\d{4}): ", (ROOT / "docs" / "decisions.md").read_text(), re.MULTILINE)
ROWS = [line for line in (ROOT / "docs" / "design.md").read_text().splitlines() if line.startswith("- `")]
ROOMS = {room.rstrip("/") for row in ROWS for room in re.findall(r"`([\w/]+/)`", row.partition(":")[0])}

CODE = [
    path
    for room in ("caffe_proto", "surgery", "plugins", "converter")
    for path in (ROOT / room).rglob("*.py")
]
# A layer type of Caffe, names of TensorRT, and of Python.
FOREIGN = {"InnerProduct", "LSTM", "CONVOLUTION", "INetworkDefinition", "ITensor", "Literal"}


@cache
def class_names() -> Counter[str]:
    """How often each class, or a type for the words of an option, is defined."""
    nodes = [node for path in CODE for node in nodes_of(path)]
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    targets = [node.target for node in nodes if isinstance(node, ast.AnnAssign)]
    return Counter(classes) + Counter(target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("page", ["design.md", "glossary.md"])
def test_classes_and_modules_that_a_page_names_exist_once(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    definitions = class_names()
    names = set(re.findall(r"`([A-Z][A-Za-z]+)`", text)) - FOREIGN
    assert len(names) > 10
    assert {name: definitions[name] for name in names if definitions[name] != 1} == {}
    modules = set(re.findall(r"`([\w/]+\.py)`", text))
    files = [
        f"/{path.relative_to(ROOT)}" for path in [*CODE, ROOT / "cli.py", *(ROOT / "tests").rglob("*.py")]
    ]
    assert [name for name in sorted(modules) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_the_rooms_are_there() -> None:
    assert [room for room in sorted(ROOMS) if not (ROOT / room).is_dir()] == []


def test_every_package_has_a_room() -> None:
    """Its own, or that of the folder it is in, but for the folders at the top."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packages = setup["options"]["packages"].split()
    folders = [name.removeprefix("prototrt.").replace(".", "/") for name in packages if "." in name]
    inner = [folder for folder in folders if "/" in folder]
    homeless = [
        folder for folder in inner if not {folder, folder.rpartition("/")[0]} & {r for r in ROOMS if "/" in r}
    ]
    assert homeless == []


def test_decisions_have_numbers_of_their_own() -> None:
    """A number whose decision was superseded is not given again."""
    assert len(DECISIONS) > 20
    assert [number for number in DECISIONS if DECISIONS.count(number) > 1] == []


def test_decisions_that_code_names_exist() -> None:
    """Links of pages are tested with all others."""
    texts = [path.read_text(encoding="utf-8") for path in CODE]
    named = {number for text in texts for number in re.findall(r"decisions\.md, (\d+)", text)}
    assert named
    assert sorted(named.difference(DECISIONS)) == []
