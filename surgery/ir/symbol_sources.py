"""Where the size of a symbol can be read when a net runs: in the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prototrt.surgery.ir.dimensions import OpenSize

if TYPE_CHECKING:
    from prototrt.surgery.ir.graph import Value


@dataclass(frozen=True, slots=True)
class SymbolSource:
    """An axis of an input, ``factor * symbol + summand`` elements long."""

    input: Value
    axis: int
    factor: int
    summand: int

    @property
    def is_plain(self) -> bool:
        """Whether the axis is as long as the symbol says."""
        return (self.factor, self.summand) == (1, 0)

    def solved(self, size: Any) -> Any:
        """The size of the symbol where the axis has this length, a number or anything that adds and divides."""
        return (size + -self.summand) // self.factor


def symbol_sources(inputs: Iterable[Value]) -> dict[str, SymbolSource]:
    """A source for each symbol that can be read: the first axis that is as long as it says, or else any."""
    sources: dict[str, SymbolSource] = {}
    for value in inputs:
        for axis, dim in enumerate(value.shape):
            line = dim.line if isinstance(dim, OpenSize) else None
            if line is not None:
                source = SymbolSource(value, axis, *line[1:])
                if line[0] not in sources or (source.is_plain and not sources[line[0]].is_plain):
                    sources[line[0]] = source
    return sources
