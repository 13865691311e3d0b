"""Sizes: known ones, symbols, and those that depend on the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.errors import ShapeError
from prototrt.caffe_proto.wording import Option, Worded

Dim: TypeAlias = int | str
"""A size, or the name of a symbol (``"N"``, ``"T"``) whose range the graph knows."""
Shape: TypeAlias = tuple[Dim, ...]


def sizes(shape: Shape) -> str:
    """As in 1x3x224x224; a size that is known only when an engine runs is a name in brackets."""
    return "x".join(str(dim) if isinstance(dim, int) else f"[{dim}]" for dim in shape) if shape else "scalar"


class DataSize(str):
    """A symbol for a size that depends on the data. It is known only after the net has run."""

    __slots__ = ()


class AtMost(int):
    """The largest size that an axis may need. Only the first elements count; their number depends on the data.

    ``count`` is the name of the output of the graph that holds the number. Every rule that copies the size
    keeps the count. Arithmetic returns a plain size: all elements count.
    """

    count: str

    def __new__(cls, size: int, count: str) -> AtMost:
        new = super().__new__(cls, size)
        new.count = count
        return new

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # int has one
        return int(self), self.count


@dataclass(frozen=True, slots=True)
class Range:
    """The sizes of a symbol when an engine runs: smallest, usual, largest."""

    min: int
    opt: int
    max: int

    @property
    def varies(self) -> bool:
        """Whether there is more than one size."""
        return self.min != self.max


def fixed(dim: Dim, what: str) -> int:
    """The size itself. Raises ``ShapeError`` for a symbol, with the dimension that must be fixed."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, DataSize):
        raise ShapeError(
            f"the size of {what} depends on the input's values ({dim}), but it must be known here",
            fix=CUT_BEFORE_LAYER,
        )
    raise ShapeError(
        f"{what} is the symbol {dim}, but its size must be known here",
        fix=Worded("give {} one size in {} and {}", dim, Option("min_shapes"), Option("max_shapes")),
    )


def element_count(shape: Shape, what: str = "the size") -> int:
    """Product of the dimensions, 1 for a scalar; symbols raise ``ShapeError``."""
    return math.prod([dim if isinstance(dim, int) else fixed(dim, what) for dim in shape])
