"""The places in the source where a message says how to change the net itself, found in the trees of all modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from prototrt.caffe_proto.common.wording import Named
from prototrt.tests.advice import flat
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import nodes_of

_ROOMS = ("caffe_proto", "surgery")
Line = tuple[str, int]


@dataclass(frozen=True)
class RepairPlace:
    """A call that is given a fix without options: its file, and its lines."""

    file: str
    first: int
    last: int

    @property
    def module(self) -> str:
        """As in ``layers/pooling``."""
        return "/".join(Path(self.file).with_suffix("").parts[-2:])


@cache
def repair_places() -> tuple[RepairPlace, ...]:
    """All of them, in order."""
    paths = [path for room in _ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    nodes = {path: nodes_of(path) for path in paths}
    takers = {name: index for inner in nodes.values() for name, index in _takers(inner)}
    return tuple(place for path, inner in nodes.items() for place in _places_in(path, inner, takers))


@cache
def places_at(line: Line) -> tuple[RepairPlace, ...]:
    """Those that a line belongs to."""
    return tuple(
        place for place in repair_places() if place.file == line[0] and place.first <= line[1] <= place.last
    )


def _takers(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """The functions that take a fix, and its place among the arguments."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            names = [each.arg for each in node.args.args if each.arg != "self"]
            if "fix" in names:
                yield node.name, names.index("fix")


def _places_in(path: Path, nodes: Sequence[ast.AST], takers: Mapping[str, int]) -> Iterator[RepairPlace]:
    passing = {id(call) for node in nodes if _takes_fix(node) for call in ast.walk(node)}
    module = ".".join(["prototrt", *path.relative_to(ROOT).with_suffix("").parts])
    for node in nodes:
        if isinstance(node, ast.Call) and (fix := _fix_of(node, takers)) is not None:
            is_passed_on = isinstance(fix, ast.Name) and fix.id == "fix" and id(node) in passing
            if not is_passed_on and not _names_options(fix, module):
                assert node.end_lineno is not None
                yield RepairPlace(str(path.relative_to(ROOT)), node.lineno, node.end_lineno)


def _takes_fix(node: ast.AST) -> bool:
    """Whether this is a function that is given a fix by its callers, which are the places."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(each.arg == "fix" for each in (*node.args.args, *node.args.kwonlyargs))


def _fix_of(call: ast.Call, takers: Mapping[str, int]) -> ast.expr | None:
    fix = next((keyword.value for keyword in call.keywords if keyword.arg == "fix"), None)
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if fix is None and name in takers and len(call.args) > takers[name]:
        fix = call.args[takers[name]]
    is_none = isinstance(fix, ast.Constant) and fix.value is None
    return None if is_none or isinstance(fix, ast.Attribute) else fix


def _names_options(fix: ast.expr, module: str) -> bool:
    """Whether it has an option or a command: the cases of goldens/advice follow it."""
    made = (node.func for node in ast.walk(fix) if isinstance(node, ast.Call))
    if any(isinstance(func, ast.Name) and func.id in ("Option", "Command") for func in made):
        return True
    constant = getattr(import_module(module), fix.id, "") if isinstance(fix, ast.Name) else ""
    return any(isinstance(part, Named) for part in flat(constant))
