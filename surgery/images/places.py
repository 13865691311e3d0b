"""Where the elements of a map lie on the map that it was made of."""

from __future__ import annotations

from fractions import Fraction

from prototrt.surgery import ir
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import Convolution, Deconvolution, Slice, Transpose
from prototrt.surgery.ops.pooling import Windows


def offset_of_places(build: Builder, x: ir.Value, like: ir.Value, axis: int) -> int | None:
    """Which element of ``x`` lies where the first one of ``like`` does, along an axis. None if nothing says it.

    The windows of layers lie around their middles; other layers leave elements where they are. Of a layer with several
    bottoms the first one counts.
    Source: s9xie/hed ``src/caffe/layers/crop_layer.cpp``, and ``coord_map`` of its layers.
    """
    ours, others = _place(build, x, axis), _place(build, like, axis)
    if ours is None or others is None or (ours[0], ours[1]) != (others[0], others[1]):
        return None
    offset = (others[2] - ours[2]) / ours[1]
    return int(offset) if offset >= 0 and offset.denominator == 1 else None


def _place(build: Builder, x: ir.Value, axis: int) -> tuple[ir.Value, Fraction, Fraction] | None:
    """What a value comes from; and the scale and shift by which its element p lies at ``scale p + shift`` there."""
    path = []
    while (node := build.writer(x)) is not None:
        source = next((value for value in node.inputs if not value.is_constant), None)
        if source is None:
            break
        path.append((node, x, source))
        x = source
    scale, shift = Fraction(1), Fraction(0)
    for node, y, source in reversed(path):
        op, before, place = node.op, source.shape, axis - 2
        if isinstance(op, Convolution | Deconvolution):
            extent = op.dilation[place] * (fixed(node.inputs[1].shape[axis], "the kernel") - 1)
            middle = Fraction(extent, 2) - op.pad[place]
            if isinstance(op, Convolution):
                scale, shift = scale * op.stride[place], shift + scale * middle
            else:
                scale /= op.stride[place]
                shift -= scale * middle
        elif isinstance(op, Windows):
            shift += scale * (Fraction(op.window[place] - 1, 2) - op.before[place])
            scale *= op.stride[place]
        elif isinstance(op, Slice) and op.axis == axis and isinstance(op.start, int):
            shift += scale * op.start
        elif isinstance(op, Transpose) or len(before) <= axis or before[axis] != y.shape[axis]:
            return None
    return x, scale, shift
