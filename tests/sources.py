"""Our modules as Python's parser reads them, once in each process: to parse all of them takes seconds."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return [*ast.walk(parsed(path))]
