"""Layers that reduce many elements to few."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.building.layer_builder import LayerBuilder, canonical_axis, layer_rule
from prototrt.surgery.ir import DType, Shape, Value, computable, open_count, range_of
from prototrt.surgery.ops import Cast, Concat, Reduce, ReduceKind, TopK
from prototrt.surgery.ops.windows import sizes_of


@layer_rule("Reduction")
def reduction(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``coeff`` times the sum, the sum of magnitudes or squares, or the mean, over all axes from ``axis`` on.

    Becomes: Abs or Multiply, Reduce, Multiply.
    Tops: one, the axes of the bottom in front of ``axis``; with axis 0 a single number.
    Source: caffe ``src/caffe/layers/reduction_layer.cpp``.
    """
    param = layer.param
    axis = canonical_axis(param.axis, x.shape, "axis")
    y = Expression(build, x)
    if param.operation == param.ASUM:
        y = abs(y)
    if param.operation == param.SUMSQ:
        y = y * y
    kind = ReduceKind.MEAN if param.operation == param.MEAN else ReduceKind.SUM
    return [y.apply(Reduce(kind, tuple(range(axis, len(x.shape))), keep=False)).scaled(param.coeff).value]


@layer_rule("ArgMax")
def argmax(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The indices of the ``top_k`` largest elements, or their values; among equal elements the last comes first.

    Becomes: TopK, Cast, Concat, Reshape.
    Tops: with ``axis`` the shape of the bottom, with top_k elements along axis: indices, or
    values with ``out_max_val``. Without ``axis`` (N, 1, top_k) indices into each flattened
    item, or (N, 2, top_k) indices and then values; with as many axes as the bottom, at least 3.
    Source: caffe ``src/caffe/layers/argmax_layer.cpp``.
    """
    param = layer.param
    if not x.shape:
        raise ShapeError(
            "shape is (), expected at least one axis",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            fix=CUT_BEFORE_LAYER,
        )
    if param.HasField("axis"):
        axis = canonical_axis(param.axis, x.shape, "axis")
        values, indices = _top(build, layer, axis, x)
        return [values if param.out_max_val else indices]
    items = build.reshape(x, (x.shape[0], open_count(x.shape[1:], "a flattened axis")), hint="items")
    values, indices = _top(build, layer, 1, items)
    rows: Shape = (x.shape[0], 1, param.top_k)
    y = build.reshape(indices, rows)
    if param.out_max_val:
        y = build.add(Concat(1), y, build.reshape(values, rows))
    return [build.reshape(y, (*y.shape, *(1,) * (len(x.shape) - 3)))]


def _top(build: LayerBuilder, layer: Layer, axis: int, x: Value) -> tuple[Value, Value]:
    """The largest elements along the axis and their indices, both as floats."""
    count, size = layer.param.top_k, computable(x.shape[axis], f"axis {axis}")
    least = range_of(size).min
    if not 1 <= count <= least:
        raise NetError(
            f"top_k is {count}, expected 1 to {least}",
            because=f"there are {sizes_of(size)} elements to choose from",
            fix=f"set top_k to {least} or less" if count else "remove top_k to use 1",
        )
    values, indices = build.add_all(TopK(axis, count), x)
    return values, build.add(Cast(DType.FLOAT32), indices)
