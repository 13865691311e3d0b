"""What detectors read: blobs in float32, whatever the precision of the net, and fields within their bounds."""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import DType, Shape
from prototrt.surgery.ops import Cast


def exact(x: Value) -> Value:
    """A bottom in float32. Float16 would round boxes to whole pixels, and decide otherwise.

    The cast is there for a net of float16: what reads it computes in float32.
    """
    return x.apply(Cast(DType.FLOAT32)).named("exact")


def overlap_threshold(threshold: float, field: str) -> float:
    """The overlap above which one of two boxes is dropped. Raises ``NetError`` if it is not from 0 to 1."""
    if not 0 <= threshold <= 1:
        raise NetError(
            f"{field} is {threshold:g}, expected 0 to 1",
            because="it is a ratio: intersection over union",
            fix=f"set {field} to 1 to keep boxes that overlap"
            if threshold > 1
            else f"set {field} to 0 or more",
        )
    return threshold


def numbers_of(shape: Shape, axis: int) -> int | None:
    """The product of the sizes from an axis on, or None if one of them is not known."""
    count = 1
    for dim in shape[axis:]:
        if not isinstance(dim, int):
            return None
        count *= dim
    return count
