"""What rules read of bottoms: float32 whatever the precision of the net, and how many numbers an item has."""

from __future__ import annotations

from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import DType, Shape
from prototrt.surgery.ops import Cast


def exact(x: Value) -> Value:
    """A bottom in float32. Float16 would round boxes to whole pixels, and decide otherwise.

    The cast is there for a net of float16: what reads it computes in float32.
    """
    return x.apply(Cast(DType.FLOAT32)).named("exact")


def numbers_of(shape: Shape, axis: int) -> int | None:
    """The product of the sizes from an axis on, or None if one of them is not known."""
    count = 1
    for dim in shape[axis:]:
        if not isinstance(dim, int):
            return None
        count *= dim
    return count
