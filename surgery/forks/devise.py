"""Products with learned and with computed rows. From DeViSE."""

from __future__ import annotations

from prototrt.surgery.rules import (
    Layer,
    LayerBuilder,
    Value,
    canonical_axis,
    flattened_size,
    layer_rule,
    misfit,
    positive_sizes,
)


@layer_rule("LinearTransform")
def linear_transform(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x W^T`` over everything from ``axis`` on. From DeViSE.

    Becomes: MatMul.
    Bottoms: (..., K...), axes from ``axis`` on are flattened to K. Tops: (..., num_output).
    Blobs: weights (num_output, K).
    Source: Qi-Xian/DeVise ``caffe/src/caffe/layers/linear_transform_layer.cpp``.
    """
    axis = canonical_axis(layer.param.axis, x.shape, "axis")
    inputs = flattened_size(layer, x, axis)
    (outputs,) = positive_sizes(layer.param, "num_output", fix="set num_output in linear_transform_param")
    weights = build.parameter(layer, (outputs, inputs), "weights", filler="weight_filler")
    rows = build.reshape(x, (*x.shape[:axis], inputs) if axis else (1, inputs), hint="rows")
    return [build.reshape(build.product(rows, weights), (*x.shape[:axis], outputs))]


@layer_rule("Similarity")
def similarity(build: LayerBuilder, layer: Layer, x: Value, prototypes: Value) -> list[Value]:
    """The products of each row with each prototype. From DeViSE.

    Becomes: MatMul.
    Bottoms: (N, C, ...) and prototypes (K, C, ...), with rows of one size. Tops: (N, K).
    Source: Qi-Xian/DeVise ``caffe/src/caffe/layers/similarity_layer.cpp``.
    """
    if len(x.shape) < 2 or x.shape[1:] != prototypes.shape[1:]:
        because = f'its rows are multiplied by those of "{layer.bottom_blob(0)}"'
        fix = "give it prototypes of the size of a row"
        raise misfit(layer, 1, prototypes, f"(K, {', '.join(map(str, x.shape[1:]))})", fix, because)
    count = flattened_size(layer, x, 1)
    rows, others = (build.reshape(value, (value.shape[0], count)) for value in (x, prototypes))
    return [build.product(rows, others)]
