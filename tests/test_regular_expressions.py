"""Matching takes work in proportion to the text, for each regular expression in the source."""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.text.tokens import _TOKEN, tokens
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.regular_expressions import ambiguity
from prototrt.tests.sources import parsed

METHODS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
SOURCES = sorted(
    path
    for place in ("caffe_proto", "surgery", "plugins", "converter", "cli.py", "__init__.py", "__main__.py")
    for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
)
MATCHES_EVERYWHERE = "caffe_proto/text/tokens.py _TOKEN"
"""It matches at each place, and reads what is no token to its end."""
EXAMINED = ROOT / "tests" / "goldens" / "regular_expressions.txt"
TEXTS = {path: path.read_text() for path in SOURCES}


@dataclass(frozen=True)
class Use:
    """An expression, and a function that it is used by."""

    place: str
    pattern: re.Pattern[str]
    method: str

    @property
    def digest(self) -> str:
        question = self.pattern.pattern, self.pattern.flags, self.method, self.place == MATCHES_EVERYWHERE
        return hashlib.sha256(repr(question).encode()).hexdigest()

    @property
    def ambiguity(self) -> str | None:
        is_search = self.method not in ("match", "fullmatch") and self.place != MATCHES_EVERYWHERE
        return ambiguity(self.pattern, is_search, self.method == "fullmatch")


def uses() -> Iterator[Use]:
    """Each call in the source that names an expression; what is compiled, with each function that it is used by."""
    users = users_of_names()
    for path, text in TEXTS.items():
        if "import re\n" not in text:
            continue
        place, tree = str(path.relative_to(ROOT)), parsed(path)
        names = dict(assigned(tree))
        for call, method in calls_of_re(tree):
            if method != "compile":
                yield Use(f"{place} {ast.unparse(call.args[0])}", written(call, method), method)
            elif call in names:
                pattern = vars(importlib.import_module(module_of(place)))[names[call]]
                for each in sorted(users.get(names[call], {"search"})):
                    yield Use(f"{place} {names[call]}", pattern, each)
            else:
                yield Use(f"{place} {ast.unparse(call.args[0])}", written(call, method), "search")


def users_of_names() -> dict[str, set[str]]:
    """By name: the methods of an expression that any module calls on it."""
    users: dict[str, set[str]] = {}
    for text in TEXTS.values():
        for name, method in re.findall(rf"\b(\w+)\.({'|'.join(METHODS)})\b", text):
            users.setdefault(name, set()).add(method)
    return users


def calls_of_re(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if method in METHODS:
                yield node, method


def assigned(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """What a module computes on its lines, and the names that it gives to that."""
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            yield line.value, line.targets[0].id


def module_of(place: str) -> str:
    return "prototrt." + place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def written(call: ast.Call, method: str) -> re.Pattern[str]:
    """The expression as it is written; what is computed in it are names, and stands as one."""
    position = {"sub": 4, "subn": 4, "compile": 1, "split": 3}.get(method, 2)
    flags = [item.value for item in call.keywords if item.arg == "flags"] or call.args[
        position : position + 1
    ]
    flag = eval(ast.unparse(flags[0]), {"re": re}) if flags else 0
    return re.compile(text_of(call.args[0]), flag)


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "name"


@pytest.mark.slow
@pytest.mark.parametrize(
    "proven", [EXAMINED, pytest.param(None, marks=pytest.mark.exhaustive)], ids=["new", "all"]
)
def test_no_text_is_read_in_several_ways(proven: Path | None, request: pytest.FixtureRequest) -> None:
    """To examine all of them takes seconds: those whose digests are in the file have been."""
    known = {*proven.read_text().split()} if proven else set()
    found = {use: use.ambiguity for use in {*uses()} if use.digest not in known}
    assert {f"{use.place} {use.method}": each for use, each in found.items() if each is not None} == {}
    if request.config.getoption("--update-goldens"):
        EXAMINED.write_text("".join(f"{digest}\n" for digest in sorted({use.digest for use in uses()})))


@given(st.text(), st.integers(0, 9))
def test_tokens_follow_each_other(text: str, start: int) -> None:
    assert _TOKEN.match(text, min(start, len(text)))


@pytest.mark.parametrize("text", ["1" * 10_000 + "a", '"' + '\\"' * 10_000])
def test_what_is_no_token_is_read_to_its_end(text: str) -> None:
    assert [token.text for token in tokens(text)] == [text, ""]


def test_expressions_are_found() -> None:
    count = sum(path.read_text().count("re.compile(") for path in SOURCES)
    assert len({use.place for use in uses()}) > count > 30


@pytest.mark.parametrize(
    ("pattern", "method", "is_ambiguous"),
    [
        ("(a+)+b", "match", True),
        ("(a*)*b", "match", True),
        ("(ab|ac?b)*d", "match", True),
        ("(a|ab|b)*c", "match", True),
        ("a*a*b", "match", True),
        (r"\w+\d+!", "match", True),
        (r"\w+\d+", "fullmatch", True),
        (r"\s+$", "sub", True),
        (r"\d+x", "search", True),
        (r"\d+x", "match", False),
        (r"\s+", "sub", False),
        (r"^\s*x", "search", False),
        (r"(?m)^\s*x", "search", True),
        (r"(?m)^[ \t]*x", "search", False),
        (r"(?=.*x)a", "search", True),
        ("(a{1,3}){2}b", "match", False),
        ("[^,]*(,[^,]*)*", "fullmatch", False),
        ("(?i)a*A*b", "match", True),
        (".*", "fullmatch", False),
        (r"(?<!\w)\w+!", "search", False),
        (r"\b\w+!", "search", False),
        (r"\b[\w.]+!", "search", True),
        (r"(\w)\1+!", "match", True),
        ('(?:[^"\\\\]|\\\\.)*"', "match", False),
    ],
)
def test_the_question_itself(pattern: str, method: str, is_ambiguous: bool) -> None:
    assert (Use("", re.compile(pattern), method).ambiguity is not None) == is_ambiguous
