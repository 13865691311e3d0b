"""Lengths: how many elements of an axis count, or belong together."""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import Origin, ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir.shapes import Array, Dim


@dataclass(frozen=True, slots=True)
class LengthsRule:
    """No length is negative, or exceeds the size of the axis. With ``fill``, all of them add up to that size."""

    fill: bool = False

    def refuse_outside(self, lengths: Array, size: int) -> None:
        """Raise ``ShapeError`` for lengths that break the rule. Floats lose their fraction."""
        outside = lengths[~((lengths > -1) & (lengths < size + 1))]
        if outside.size:
            raise ShapeError(f"length {outside[0]:g} is not one of 0 to {size}", fix=self._fix)
        total = int(lengths.astype(int).sum())
        if self.fill and total != size:
            raise ShapeError(f"the lengths add up to {total}, expected {size}", fix=self._fix)

    @property
    def _fix(self) -> str:
        if self.fill:
            return "correct the lengths: they must add up to the number of rows"
        return "correct the lengths: none may exceed the number of steps"


SEGMENTS = LengthsRule(fill=True)


@dataclass(frozen=True, slots=True)
class Segments:
    """An input of the graph whose numbers are the lengths of segments. They make up an axis of this ``size``."""

    input: str
    size: Dim
    origin: Origin
