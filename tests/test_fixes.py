"""Whoever refuses a model says what to do: every error that is raised about one has a fix, and the fix says more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest

from prototrt.caffe_proto.common import errors
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import nodes_of

ERRORS = {
    name
    for name, thing in vars(errors).items()
    if isinstance(thing, type)
    and issubclass(thing, errors.ConversionError)
    and "fix" in signature(thing).parameters
    and name != "Problems"
}
"""Problems have the fixes of their errors, and some errors make their own."""
FILES = sorted(path for folder in ("caffe_proto", "surgery") for path in (ROOT / folder).rglob("*.py"))
WITH_FIXES = sorted({*FILES, *(ROOT / "converter").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")})
EMPTY = """a an the it its them they this that these those of or and as to for from with in on at is are be has have not
    no one each every all any which where what so by than there into out up both same other only own such
    change choose fix give let make mend put set state take use write"""
EMPTY_WORDS = frozenset(EMPTY.split())
"""Words that say nothing by themselves, also in a fix: whoever is told to mend something must be told what and how."""


def errors_in(path: Path) -> Iterator[ast.Call]:
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            yield node


def told(path: Path, call: ast.Call) -> str:
    return f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}"


def test_every_error_has_a_fix() -> None:
    assert [
        told(path, call)
        for path in FILES
        for call in errors_in(path)
        if not {"fix", None} & {word.arg for word in call.keywords}
    ] == []


def test_no_fix_repeats_the_problem() -> None:
    assert [told(path, call) for path in WITH_FIXES for call in errors_in(path) if repeats(call)] == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("NetError('sizes that agree are needed', fix='give them sizes that agree')", True),
        ("NetError(f'shape is {x}, expected {y}', fix=f'give it the shape {y}')", True),
        ("NetError('states both a and b', because='they differ', fix='state one of them')", True),
        ("NetError(f'shape is {x}, expected {y}', fix=f'give it {z}')", False),
        ("NetError('states both a and b', fix='remove b')", False),
        ("NetError('no such file', fix=fix)", False),
    ],
)
def test_what_repeats(error: str, expected: bool) -> None:
    (statement,) = ast.parse(error).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert repeats(statement.value) is expected


def repeats(call: ast.Call) -> bool:
    """Whether a fix has neither a word nor a value that problem and cause have not; what it names is not looked at."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    fix, because = keywords.get("fix"), keywords.get("because")
    if not isinstance(fix, ast.Constant | ast.JoinedStr) or not call.args or not words(fix):
        return False
    said = [part for part in (call.args[0], because) if part is not None]
    return all(facts(fix) <= set().union(*map(facts, said)) for facts in (content, values))


def words(text: ast.AST) -> list[str]:
    constants = (node.value for node in ast.walk(text) if isinstance(node, ast.Constant))
    return [word for part in constants for word in re.findall(r"[a-z_]{2,}", str(part).lower())]


def content(text: ast.AST) -> set[str]:
    """The words that say something; a plural counts as its singular."""
    return {word.removesuffix("s") for word in words(text) if word not in EMPTY_WORDS}


def values(text: ast.AST) -> set[str]:
    """What is filled in."""
    return {ast.unparse(node.value) for node in ast.walk(text) if isinstance(node, ast.FormattedValue)}
