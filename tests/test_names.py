"""Each name means one thing: class names are unique, the glossary's classes exist, and values have nouns for names.

The source is walked as text, so nothing is imported, and what only one system can import is walked, too.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import prototrt

ROOT = Path(__file__).parents[1]
ROOMS = ("caffe_proto", "surgery", "plugins", "converter")
PARTICIPLES = {"found", "known", "stated", "given", "wanted", "told", "said"}
LAYER_TYPES = {"InnerProduct"}
"""Of Caffe, as the glossary's examples."""


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax of the package's modules, by their path."""
    paths = [*ROOT.glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def places_of_classes() -> dict[str, list[str]]:
    """The modules in which a class of each name is defined, without the underscore of private ones."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path)
    return places


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Variables, parameters, functions, classes and attributes that a module names itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def with_participle(name: str) -> bool:
    """Whether a participle stands in it as a word: ``found_layers`` and ``LayersFound``, not ``foundation``."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return not PARTICIPLES.isdisjoint(word.lower() for word in words)


def test_a_class_name_means_one_thing() -> None:
    assert {name: places for name, places in places_of_classes().items() if len(places) > 1} == {}


def test_the_classes_of_the_glossary_exist() -> None:
    rows = re.findall(r"^- .*$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([A-Z][a-z]\w+)`", row)}
    assert len(named) > 15
    assert sorted(named - places_of_classes().keys() - LAYER_TYPES - {*prototrt.__all__}) == []


def test_the_glossary_explains_a_word_once_in_each_part() -> None:
    parts = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(parts) == 3
    for part in parts:
        terms = re.findall(r"^- \*\*(.+?)\*\*:", part, re.MULTILINE)
        assert len(terms) > 10
        words = [word for term in terms for word in term.split(", ")]
        assert sorted({word for word in words if words.count(word) > 1}) == []


def test_values_are_named_by_nouns() -> None:
    """A participle says how a value came here; a name says what it is."""
    named = {
        f"{path}: {name}"
        for path, tree in modules().items()
        for name in (Path(path).stem, *bound_names(tree))
        if with_participle(name)
    }
    assert sorted(named) == []


def test_participles_are_recognized_in_longer_names() -> None:
    names = ["found", "_known_names", "shape_given", "LayerFound", "foundation", "aunt_old", "SaidOf"]
    assert [name for name in names if with_participle(name)] == [
        "found",
        "_known_names",
        "shape_given",
        "LayerFound",
        "SaidOf",
    ]
