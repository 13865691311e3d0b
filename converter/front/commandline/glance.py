"""How a file that is not a net is shown: what it is, what it holds, and the command to run next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.front.commandline.next_steps import hint, next_step
from prototrt.converter.front.commandline.printing import show, warn
from prototrt.converter.front.commandline.tables import Table
from prototrt.converter.front.commandline.wording import in_command_line_words
from prototrt.converter.showing.glance.facts import Fact, FileFacts, Rows

_FEW, _MOST = 2, 20


@dataclass(frozen=True, slots=True)
class Glance:
    """A file and what to do with it."""

    facts: FileFacts

    def as_dict(self) -> dict[str, Any]:
        return {**self.facts.as_dict(), "next": next_step(self.facts)}


def print_glance(glance: Glance) -> None:
    facts = glance.facts
    size = f", {text_of_bytes(facts.size)}" if facts.size else ""
    show(f"{facts.file}: {facts.words}{size}")
    if facts.rows is not None and facts.rows.rows:
        _print_rows(facts.rows)
    step, about = next_step(facts), in_command_line_words(hint(facts))
    rows = {name: _lines(fact) for name, fact in facts.facts.items()}
    rows |= {"next": [line for line in (step, about) if line is not None]}
    width = max(map(len, rows))
    for name, lines in rows.items():
        for place, line in enumerate(lines):
            show(f"{'' if place else name:{width}}  {line}")
    warn(facts.warnings)


def _print_rows(rows: Rows) -> None:
    right = [
        place for place in range(len(rows.columns)) if all(isinstance(row[place], int) for row in rows.rows)
    ]
    table = Table(rows.columns, right=right, folds=(len(rows.columns) - 1,))
    for row in rows.rows:
        table.add_row(*map(_text, row))
    table.show()


def _text(fact: Fact) -> str:
    if isinstance(fact, int):
        return f"{fact:,}"
    return fact if isinstance(fact, str) else ", ".join(fact)


def _lines(fact: Fact) -> Sequence[str]:
    """A list of many has a line for each, up to a limit; ``--json`` has all."""
    if isinstance(fact, str | int) or len(fact) <= _FEW:
        return [_text(fact)]
    return fact if len(fact) <= _MOST + 1 else [*fact[:_MOST], f"{len(fact) - _MOST} others"]
