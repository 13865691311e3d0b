"""The supported layers, from the docstrings of their rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from prototrt.surgery.building.layer_rules import python_rule
from prototrt.surgery.expansion.frameworks import framework_named


@dataclass(frozen=True, slots=True)
class LayerSupport:
    """One Caffe layer type: the primitives it becomes, and what to know about it."""

    type: str
    becomes: str
    notes: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def supported_layers() -> list[LayerSupport]:
    """All of them, by name; those written in Python as ``Python: MODULE.LAYER``."""
    by_type = framework_named("caffe").rules.rules
    by_name = {f"Python: {name}": rule for name, rule in python_rule.rules.items()}
    return [_support(name, rule) for name, rule in sorted({**by_type, **by_name}.items())]


def supported_operators() -> list[LayerSupport]:
    """The same for the operators of Caffe2. Operators with the same rule share a row."""
    names: dict[Callable[..., Any], list[str]] = {}
    for type_name, rule in sorted(framework_named("caffe2").rules.rules.items()):
        if type_name != "Input":
            names.setdefault(rule, []).append(type_name)
    return [_support(", ".join(types), rule) for rule, types in names.items()]


def markdown_table(rows: list[LayerSupport], what: str = "layer") -> str:
    """The table of docs/layers.md, or of docs/caffe2.md."""
    lines = [f"| {what} | becomes | notes |", "| --- | --- | --- |"]
    lines += [f"| {row.type} | {row.becomes} | {row.notes.replace('|', chr(92) + '|')} |" for row in rows]
    return "\n".join(lines)


def _support(type_name: str, rule: Callable[..., Any]) -> LayerSupport:
    """Read a rule's docstring: its first paragraph, and the line ``Becomes: ...``."""
    paragraphs = (inspect.getdoc(rule) or "").replace("``", "`").split("\n\n")
    lines = [line for paragraph in paragraphs for line in paragraph.splitlines()]
    becomes = [line.removeprefix("Becomes:").strip() for line in lines if line.startswith("Becomes:")]
    return LayerSupport(type_name, "".join(becomes[:1]).rstrip("."), " ".join(paragraphs[0].split()))
