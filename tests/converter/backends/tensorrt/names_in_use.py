"""Which names of TensorRT a module of ours uses, read from its source.

Our modules call TensorRT in a few fixed forms: ``network.add("METHOD", ...)`` and
``network.enum("KIND", "MEMBER")``, ``trt.NAME``, settings of ``layer``, and attributes of
the objects in ``CLASSES``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from prototrt.tests.sources import nodes_of

CLASSES = {
    "builder": "Builder",
    "config": "IBuilderConfig",
    "definition": "INetworkDefinition",
    "loop": "ILoop",
    "profile": "IOptimizationProfile",
}
"""What our variables and attributes of these names hold."""

CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+")


@dataclass
class Uses:
    """Names in use: of the module, of its classes, of enumerations, and settings of layers."""

    module: set[str] = field(default_factory=set)
    members: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a class or an enumeration and one of its names."""
    open_enums: set[str] = field(default_factory=set)
    """Enumerations whose member is not written where they are used, but elsewhere in the file."""
    words: set[str] = field(default_factory=set)
    """Strings that look like members of an enumeration."""
    settings: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of the method that made the layer ("" where a helper did) and the name that is set."""
    optional: set[str] = field(default_factory=set)
    """Names that are asked for by ``getattr`` or ``hasattr``, and may be missing."""

    @property
    def loose_words(self) -> set[str]:
        """Words whose enumeration is not written beside them."""
        return self.words - {member for _, member in self.members}


def names_in_use(path: Path) -> Uses:
    uses = Uses()
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef):
            _settings(node, uses)
        elif isinstance(node, ast.Call):
            _call(node, uses)
        elif isinstance(node, ast.Attribute):
            _attribute(node, uses)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and CONSTANT.fullmatch(node.value)
        ):
            uses.words.add(node.value)
    return uses


def _call(node: ast.Call, uses: Uses) -> None:
    name = _last(node.func)
    if name == "enum":
        kind, member = node.args
        (kind_name,) = _strings(kind)
        found = list(_strings(member))
        uses.members.update((kind_name, text) for text in found)
        if not found:
            uses.open_enums.add(kind_name)
    elif (
        name == "add"
        and isinstance(node.func, ast.Attribute)
        and _last(node.func.value) in ("network", "self")
    ):
        owner = next((_last(word.value) for word in node.keywords if word.arg == "owner"), "definition")
        # The method's name is written out everywhere but in Network.add itself.
        uses.members.update((CLASSES[owner], f"add_{method}") for method in _strings(node.args[0]))
    elif name in ("getattr", "hasattr") and len(node.args) > 1:
        uses.optional.update(text for text in _strings(node.args[1]) if text.isidentifier())


def _attribute(node: ast.Attribute, uses: Uses) -> None:
    owner = _last(node.value)
    if node.attr.startswith("__"):  # every class has it
        return
    if owner == "trt":
        uses.module.add(node.attr)
    elif isinstance(node.value, ast.Attribute) and _last(node.value.value) == "trt":
        uses.members.add((owner, node.attr))
    elif owner in CLASSES:
        uses.members.add((CLASSES[owner], node.attr))


def _settings(function: ast.FunctionDef, uses: Uses) -> None:
    """What a function sets of the one ``layer`` that it makes."""
    methods = [
        text
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _last(node.targets[0]) == "layer"
        for text in (_strings(node.value.args[0]) if _is_add(node.value) else [""])
    ]
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Attribute)
            and _last(node.value) == "layer"
            and isinstance(node.ctx, ast.Store)
        ):
            uses.settings.update((method, node.attr) for method in methods or [""])


def _is_add(node: ast.expr) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add"
        and _last(node.func.value) in ("network", "self")
    )


def _last(node: ast.expr) -> str:
    """``c`` of ``a.b.c``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _strings(node: ast.expr) -> Iterator[str]:
    """The strings that an expression may be: itself, or both sides of a choice."""
    if isinstance(node, ast.IfExp):
        yield from (*_strings(node.body), *_strings(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
