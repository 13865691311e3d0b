"""A program that reads ONNX models: its newest opset, and the operators and types that it takes.

The facts are in ``readers.json``. Those of TensorRT's parsers are from the tables that they publish; those of other
programs are what the tests find.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.files.readers.names import ReaderName


@dataclass(frozen=True, slots=True)
class ModelReader:
    """What a program reads.

    ``operators`` are those that its table lists, with the types of the first input; without a table it is empty.
    ``lacks`` says why it does not take an operator. ``axes``: an operator takes images of so many axes.
    ``constants``: inputs of an operator that must be initializers. ``has_rank_0``: an output may have no axes.
    """

    program: str
    opset: int
    source: str
    operators: Mapping[str, frozenset[str]] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    constants: Mapping[str, Sequence[int]] = field(default_factory=dict)
    has_rank_0: bool = True

    def why_not(self, operator: str, types: Sequence[str]) -> str | None:
        """Why it does not take an operator on inputs of these types, if it does not."""
        if operator in self.lacks:
            return self.lacks[operator]
        if not self.operators:
            return None
        if operator not in self.operators:
            return f"its table of operators lacks {operator}: {self.source}"
        read = self.operators[operator]
        missing = [kind for kind in types if kind not in read and not (kind == "int64" and "int32" in read)]
        if missing and operator not in _CONTROL_FLOW:
            return f"its table of operators has {operator} only of {', '.join(sorted(read))}: {self.source}"
        return None


_CONTROL_FLOW = ("If", "Loop", "Scan")


def reader_named(name: ReaderName) -> ModelReader:
    """The reader of this name."""
    return _readers()[name]


@cache
def _readers() -> Mapping[str, ModelReader]:
    facts = json.loads(Path(__file__).with_name("readers.json").read_text())
    return {name: _reader(each) for name, each in facts.items()}


def _reader(facts: Mapping[str, object]) -> ModelReader:
    rows = facts.get("operators", {})
    assert isinstance(rows, dict)
    operators = {name: frozenset(kinds.split()) for kinds, names in rows.items() for name in names.split()}
    return ModelReader(**{**facts, "operators": operators})  # type: ignore[arg-type]  # as the file has them
