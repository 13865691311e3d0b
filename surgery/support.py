"""Which Caffe layers there are rules for, told by the rules themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import prototrt.surgery.expand  # noqa: F401  registers the rules
from prototrt.surgery.layer_builder import layer_rule


@dataclass(frozen=True, slots=True)
class Support:
    """One Caffe layer type: the primitives it becomes, and what to know about it."""

    type: str
    becomes: str
    notes: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def supported_layers() -> list[Support]:
    """All of them, by name."""
    return [_support(type_name, rule) for type_name, rule in sorted(layer_rule.rules.items())]


def markdown_table(rows: list[Support]) -> str:
    """The table as it stands in the README."""
    lines = ["| layer | becomes | notes |", "| --- | --- | --- |"]
    lines += [f"| {row.type} | {row.becomes} | {row.notes.replace('|', chr(92) + '|')} |" for row in rows]
    return "\n".join(lines)


def _support(type_name: str, rule: Callable[..., Any]) -> Support:
    """Read a rule's docstring: its first paragraph, and the line ``Becomes: ...``."""
    paragraphs = (inspect.getdoc(rule) or "").replace("``", "`").split("\n\n")
    lines = [line for paragraph in paragraphs for line in paragraph.splitlines()]
    becomes = [line.removeprefix("Becomes:").strip() for line in lines if line.startswith("Becomes:")]
    return Support(type_name, "".join(becomes[:1]).rstrip("."), " ".join(paragraphs[0].split()))
