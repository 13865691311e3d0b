"""Functions of several blobs at the same place."""

from __future__ import annotations

from functools import reduce

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.surgery.ir import Value
from prototrt.surgery.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ops import ADD, MAXIMUM, MULTIPLY, Binary


@layer_rule("Eltwise")
def eltwise(build: LayerBuilder, layer: Layer, x: Value, y: Value, *others: Value) -> list[Value]:
    """Product, sum with coefficients, or maximum of blobs of one shape.

    Becomes: Add, Multiply or Maximum, one a further bottom.
    Source: caffe ``src/caffe/layers/eltwise_layer.cpp``.
    """
    bottoms = [x, y, *others]
    for index, bottom in enumerate(bottoms):
        if bottom.shape != x.shape:
            raise ShapeError(
                f"shape is {bottom.shape}, expected {x.shape}",
                blob=f'bottom "{layer.bottom_blob(index)}"',
                because=f'that is the shape of the first bottom, "{layer.bottom_blob(0)}"',
            )
    param = layer.param
    kinds: dict[int, Binary] = {param.PROD: MULTIPLY, param.SUM: ADD, param.MAX: MAXIMUM}
    coefficients = list(param.coeff)
    if coefficients and param.operation != param.SUM:
        raise NetError("coeff is for the operation SUM only", fix="remove coeff")
    if coefficients:
        bottoms = _weighted(build, bottoms, coefficients)
    return [reduce(lambda a, b: build.add(kinds[param.operation], a, b), bottoms)]


def _weighted(build: LayerBuilder, bottoms: list[Value], coefficients: list[float]) -> list[Value]:
    if len(coefficients) != len(bottoms):
        raise NetError(f"has {len(coefficients)} coefficients for {len(bottoms)} bottoms, expected one each")
    return [
        bottom
        if coefficient == 1
        else build.add(MULTIPLY, bottom, build.scalar(coefficient, len(bottom.shape)))
        for bottom, coefficient in zip(bottoms, coefficients, strict=True)
    ]
