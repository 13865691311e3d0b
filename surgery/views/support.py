"""The supported layers, from the docstrings of their rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.surgery.building.layer_rules import python_rule
from prototrt.surgery.expansion.frameworks import framework_by_name

_BECOMES = re.compile(r"(.*?)(?:\.?$(?=\n\n|\n[A-Z]\w*:|\Z)|\.$)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class LayerSupport:
    """One Caffe layer type: the primitives it becomes, and what to know about it."""

    type: str
    becomes: str
    notes: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def supported_layers(*words: str) -> list[LayerSupport]:
    """All of them, by name; those written in Python as ``Python: MODULE.LAYER``.

    With ``words``, those whose type has one of them, in any case. Raises ``OptionsError`` for a word that no type has.
    """
    by_type = framework_by_name("caffe").rules.rules
    by_name = {f"Python: {name}": rule for name, rule in python_rule.rules.items()}
    rules = sorted({**by_type, **by_name}.items())
    for word in words:
        if not any(word.lower() in name.lower() for name, _ in rules):
            near = choices(word, [name for name, _ in rules])
            raise OptionsError(f'no layer type has "{word}" in its name', fix=f"write {near}")
    return [
        support_of(name, rule)
        for name, rule in rules
        if not words or any(word.lower() in name.lower() for word in words)
    ]


def markdown_table(rows: list[LayerSupport]) -> str:
    """The whole table in Markdown."""
    lines = ["| layer | becomes | notes |", "| --- | --- | --- |"]
    lines += [f"| {row.type} | {row.becomes} | {row.notes.replace('|', chr(92) + '|')} |" for row in rows]
    return "\n".join(lines)


def support_of(type_name: str, rule: Callable[..., Any]) -> LayerSupport:
    """Read a rule's docstring: its first paragraph, and the sentence ``Becomes: ...``, which may take several lines."""
    text = (inspect.getdoc(rule) or "").replace("``", "`")
    becomes = _BECOMES.match(f"\n{text}".partition("\nBecomes:")[2])
    notes = text.partition("\n\n")[0]
    return LayerSupport(type_name, " ".join(becomes[1].split()) if becomes else "", " ".join(notes.split()))
