"""Whoever refuses a model says what to do: every error that is raised about one has a fix."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from prototrt.caffe_proto import errors

ROOT = Path(__file__).parents[1]
GIVE_THEIR_OWN = ("MissingShapesError", "Problems")
ERRORS = {
    name
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and issubclass(thing, errors.ConversionError) and name not in GIVE_THEIR_OWN
}
FILES = sorted(
    path
    for folder in ("caffe_proto", "surgery")
    for path in (ROOT / folder).rglob("*.py")
    if "caffe2" not in path.parts
)


def without_fix(path: Path) -> Iterator[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    for call in calls:
        is_error = isinstance(call.func, ast.Name) and call.func.id in ERRORS
        if is_error and not {"fix", None} & {keyword.arg for keyword in call.keywords}:
            yield f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_error_has_a_fix(path: Path) -> None:
    assert list(without_fix(path)) == []
