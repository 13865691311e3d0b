"""What rules read of bottoms: float32 whatever the precision of the net, and how many numbers an item has."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import misfit
from prototrt.surgery.ir import DType, OpenSize, Shape, open_count
from prototrt.surgery.ir.range_words import one_size
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


def flattened_size(layer: Layer, x: Value, axis: int) -> int:
    """The size K of what is flattened. Raises ``ShapeError`` if it varies."""
    size = open_count(x.shape[axis:], "a flattened axis")
    if isinstance(size, OpenSize):
        because = "the weights are for one number of inputs"
        fix = Worded("{}, or put a Pooling with global_pooling before this layer", one_size(size.symbols))
        raise misfit(layer, 0, x, f"known sizes from axis {axis} on", fix, because)
    return size
