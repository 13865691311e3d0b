"""The places in the source where a message proposes an option or a command, found in the trees of all modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from prototrt.caffe_proto.common import errors
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import nodes_of

_NAMED = ("Option", "Command")
_ERRORS = {
    name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, Exception)
}
_NO_ADVICE = ("because", "blob", "where", "origin")
"""Of an error, what says what is wrong, as the first argument does."""
_DECLARATIONS = {
    "at_least",
    "field_option",
    "not_in_lists",
    "one_of",
    "only_in_python",
    "option",
    "same_as",
    "_whole_shapes",
}
"""Calls whose texts are help."""


@dataclass(frozen=True)
class AdvicePlace:
    """Where an option or a command is made: the file, its lines, and the words around it.

    ``name`` is what it names, if that is written there; ``constant`` the constant of the module that holds it.
    """

    file: str
    first: int
    last: int
    words: str
    name: str | None
    constant: str | None

    def __str__(self) -> str:
        return f"{self.file}: {self.words}"


def advice_places() -> list[AdvicePlace]:
    """All of them, in order."""
    found: list[AdvicePlace] = []
    for room in ("caffe_proto", "surgery", "plugins", "converter"):
        for path in sorted((ROOT / room).rglob("*.py")):
            found += _places_in(path)
    return found


def _places_in(path: Path) -> Iterator[AdvicePlace]:
    text = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in _NAMED):
        return  # to parse all modules takes seconds
    nodes = nodes_of(path)
    above = {inner: outer for outer in nodes for inner in ast.iter_child_nodes(outer)}
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMED):
            continue
        chain = [node, *_outer(node, above)]
        if _is_advice(chain):
            assert node.end_lineno is not None
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            assert name is None or isinstance(name, str)
            file = str(path.relative_to(ROOT))
            yield AdvicePlace(file, node.lineno, node.end_lineno, _words(chain), name, _constant(chain))


def _outer(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in above and not isinstance(node, ast.FunctionDef | ast.ClassDef):
        node = above[node]
        yield node


def _is_advice(chain: list[ast.AST]) -> bool:
    """Whether no call around it is about the problem, or a declaration of an option."""
    for inner, outer in pairwise(chain):
        if isinstance(outer, ast.Assign) and ast.unparse(outer.targets[0]) in ("problem", "because"):
            return False
        if not isinstance(outer, ast.Call):
            if isinstance(outer, ast.keyword) and outer.arg in _NO_ADVICE:
                return False
            continue
        name = outer.func.id if isinstance(outer.func, ast.Name) else getattr(outer.func, "attr", "")
        if name in _DECLARATIONS or (name in _ERRORS and outer.args and inner is outer.args[0]):
            return False
    return True


def _constant(chain: list[ast.AST]) -> str | None:
    """The name of the constant that a module assigns it to."""
    assigned = next((node for node in chain if isinstance(node, ast.Assign)), None)
    is_global = assigned is not None and isinstance(chain[-1], ast.Module)
    return ast.unparse(assigned.targets[0]) if assigned is not None and is_global else None


def _words(chain: list[ast.AST]) -> str:
    """The outermost text around it, as it is written; the option itself where there is none."""
    texts = [node for node in chain if isinstance(node, ast.Call) and ast.unparse(node.func) == "Worded"]
    return ast.unparse(texts[-1] if texts else chain[0]).replace(
        '"', "'"
    )  # versions of Python quote differently
