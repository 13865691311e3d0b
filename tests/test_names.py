"""Each name means one thing: class names are unique, the glossary's classes exist, and values have nouns for names.

A function is called by what it does (``hoist``), or by what it returns (``needed_layers``).

The source is walked as text, so nothing is imported, and what only one system can import is walked, too.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import prototrt
from prototrt.surgery import rules
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import nodes_of

ROOMS = ("caffe_proto", "surgery", "plugins", "converter")
PARTICIPLES = {"found", "known", "stated", "given", "wanted", "told", "said"}
LAYER_TYPES = {"InnerProduct"}
"""Of Caffe, as the glossary's examples."""
IRREGULAR_WORDS = """broken built chosen done drawn grown held hidden kept lost made meant seen sent shown sunk
taken torn written"""
NOUN_WORDS = """beginning binding docstring drawing embed embedding encoding feed finding heading lowering mapping
meaning nesting nothing opening padding pooling reading seed serving setting speed string tiling timing unpooling
warning wiring wording"""
PREPOSITION_WORDS = """after along around as at before behind between by
for from in inside into of on once out over to up with without"""
IRREGULAR, NOUNS, PREPOSITIONS = (
    {*text.split()} for text in (IRREGULAR_WORDS, NOUN_WORDS, PREPOSITION_WORDS)
)
ONE_TYPE = {"Expression": "Value", "_Made": "Value"}
PUBLIC = {"Converted", "stacked", *rules.__all__}
"""Names that users' code has."""


@cache
def modules() -> dict[str, list[ast.AST]]:
    """The nodes of the package's modules, by their path."""
    paths = [*ROOT.glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): nodes_of(path) for path in paths}


@cache
def places_of_classes() -> dict[str, list[str]]:
    """The modules in which a class of each name is defined, without the underscore of private ones."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, nodes in modules().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path)
    return places


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Variables, parameters, functions, classes and attributes that a module names itself."""
    for node in nodes:
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


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def is_participle(word: str) -> bool:
    return word in PARTICIPLES | IRREGULAR or (
        len(word) > 4 and word.endswith(("ed", "ing")) and word not in NOUNS
    )


def lacks_noun(name: str) -> bool:
    """Whether a participle stands alone or before a preposition: ``hoisted``, ``padded_around``."""
    first, *rest = words_of(name) or [""]
    return is_participle(first) and (not rest or rest[0] in PREPOSITIONS)


def is_preposition(name: str) -> bool:
    """``_of``: of a method the class says the rest, a function has no class."""
    words = words_of(name)
    return bool(words) and all(word in PREPOSITIONS for word in words)


@cache
def bases() -> dict[str, set[str]]:
    """The names of the classes that each class is made from."""
    classes = (node for nodes in modules().values() for node in nodes if isinstance(node, ast.ClassDef))
    return {
        node.name: {ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases}
        for node in classes
    }


def ancestors(name: str) -> set[str]:
    """A class and all that it is made from, by name."""
    return {name}.union(*map(ancestors, bases().get(name, set()) - {name}))


def types_in(annotation: ast.expr | None) -> set[str]:
    """The types that an annotation names, whatever holds them."""
    nodes = () if annotation is None else ast.walk(annotation)
    names = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    }
    return {
        ONE_TYPE.get(name, name)
        for name in names - {"Sequence", "Iterable", "Iterator", "list", "tuple", "ir"}
    }


def returns_its_subject(function: ast.FunctionDef, owner: str | None) -> bool:
    """Whether it is one word, as ``sorted``, and returns its class, or the type of its first argument."""
    first, *rest = [*function.args.posonlyargs, *function.args.args] or [ast.arg("")]
    subjects = types_in(first.annotation)
    if first.arg in ("self", "cls"):
        subjects = {ONE_TYPE.get(name, name) for name in ancestors(owner or "")}
        subjects |= types_in(rest[0].annotation) if rest else set()
    return len(words_of(function.name)) == 1 and not subjects.isdisjoint(types_in(function.returns))


@cache
def functions() -> list[tuple[str, ast.FunctionDef, str | None]]:
    """Each function and method with its module, and with the class of a method."""
    found = []
    for path, nodes in modules().items():
        owners = {child: node.name for node in nodes if isinstance(node, ast.ClassDef) for child in node.body}
        found += [(path, node, owners.get(node)) for node in nodes if isinstance(node, ast.FunctionDef)]
    return found


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
        for path, nodes in modules().items()
        for name in (Path(path).stem, *bound_names(nodes))
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


def test_functions_are_named_by_what_they_do_or_return() -> None:
    named = [
        f"{path}: {function.name}"
        for path, function, owner in functions()
        if lacks_noun(function.name) and not returns_its_subject(function, owner)
        if function.name not in PUBLIC
    ]
    assert sorted(named) == []


def test_no_function_is_a_preposition() -> None:
    named = [
        f"{path}: {function.name}"
        for path, function, owner in functions()
        if is_preposition(function.name)
        if owner is None
    ]
    assert sorted(named) == []


def test_classes_are_named_by_nouns() -> None:
    """A ``str`` in another form may be a participle: ``Worded``."""
    named = [
        f"{path}: {name}"
        for name, paths in places_of_classes().items()
        for path in paths
        if is_participle(words_of(name)[-1]) and "str" not in ancestors(name)
        if name not in PUBLIC
    ]
    assert sorted(named) == []


def test_predicates_return_truth() -> None:
    named = [
        f"{path}: {function.name}"
        for path, function, _ in functions()
        if words_of(function.name)[:1] in (["is"], ["has"], ["are"])
        if types_in(function.returns).isdisjoint(
            {"bool", "TypeGuard", "Value"}
        )  # a value holds truth in a graph
    ]
    assert sorted(named) == []


def test_names_without_a_noun_are_recognized() -> None:
    names = ["hoisted", "_padded_around", "FoundIn", "needed_layers", "hoist", "wiring", "with_fed_states"]
    assert [name for name in names if lacks_noun(name)] == ["hoisted", "_padded_around", "FoundIn"]
    text = (
        "def sorted_(rows: list[int]) -> list[int]: ...",
        "def hoisted(build: Builder, x: Value) -> Value: ...",
    )
    subjects = [node for line in text for node in ast.parse(line).body if isinstance(node, ast.FunctionDef)]
    assert [returns_its_subject(function, None) for function in subjects] == [True, False]
