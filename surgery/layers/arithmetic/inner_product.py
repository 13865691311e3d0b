"""Full connection and lookup of learned rows."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.bottoms import flattened_size
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, canonical_axis, layer_rule, positive_sizes
from prototrt.surgery.building.layer_rules import which_fork
from prototrt.surgery.ir import DType
from prototrt.surgery.ir.uniform_constants import is_broadcast
from prototrt.surgery.ops import Cast, Gather


@layer_rule("InnerProduct")
def inner_product(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x W^T + b`` over everything from ``axis`` on.

    Becomes: MatMul, Add.
    Bottoms: (..., K...), axes from ``axis`` on are flattened to K. Tops: (..., num_output).
    Blobs: weights (num_output, K), or (K, num_output) with ``transpose``; bias (num_output,).
    Without ``num_output``, as in a net of DIGITS, the weights say it.
    ``normalize``, of NormFace, divides each row of the weights by its length, ``sqrt(sum of squares + 1e-6)``.
    Source: caffe and happynear/caffe-windows ``src/caffe/layers/inner_product_layer.cpp``.
    """
    param = layer.param
    axis = canonical_axis(param.axis, x.shape, "axis")
    inputs, outputs = flattened_size(layer, x, axis), _outputs(layer)
    shape = (inputs, outputs) if param.transpose else (outputs, inputs)
    weights = build.parameter(layer, shape, "weights", filler="weight_filler")
    if param.normalize:
        weights = _rows_of_length_one(build, layer, weights)
    rows = build.reshape(x, (*x.shape[:axis], inputs) if axis else (1, inputs), hint="rows")
    y = build.product(rows, weights, transpose=param.transpose)
    if param.bias_term:
        bias = build.parameter(layer, (outputs,), "bias", filler="bias_filler", kind="bias")
        y = y + build.aligned(bias, len(y.shape))
    return [build.reshape(y, (*x.shape[:axis], outputs))]


def _outputs(layer: Layer) -> int:
    """The size of the top, by the layer or else by its weights."""
    param = layer.param
    if not param.HasField("num_output") and layer.blobs and len(layer.blobs[0].shape) > 1:
        return int(layer.blobs[0].shape[-1 if param.transpose else -2])
    if param.num_output < 1:
        fix = Worded("set num_output in inner_product_param")
        if not param.HasField("num_output"):
            setting = Option("overrides", {f"{layer.name}.inner_product_param.num_output": "COUNT"})
            fix = Worded("give the weights, which say it, or state it: {}", setting)
        raise NetError(f"num_output is {param.num_output}, expected at least 1", fix=fix)
    return int(param.num_output)


def _rows_of_length_one(build: LayerBuilder, layer: Layer, weights: Value) -> Value:
    """The weights (num_output, K), each row divided by its length."""
    if layer.param.transpose:
        raise UnsupportedLayerError(
            "states both normalize and transpose",
            because="the fork then divides by lengths that are not the lengths of rows",
            fix=CUT_BEFORE_LAYER,
        )
    assert weights.data is not None
    # All rows are one row, if one number is repeated.
    stored = weights.data[:1] if is_broadcast(weights.data) else weights.data
    lengths = np.sqrt(np.square(stored, dtype=np.float64).sum(1, keepdims=True) + 1e-6)
    rows = (stored[:, :1] if is_broadcast(weights.data) else stored) / lengths
    return build.constant(np.broadcast_to(rows.astype(np.float32), weights.data.shape), "unit_rows")


@layer_rule("Embed")
def embed(build: LayerBuilder, layer: Layer, ids: Value) -> list[Value]:
    """The learned row of each id, plus a bias.

    Becomes: Cast, Gather, Add.
    Bottoms: ids of any shape, whole numbers from 0 to input_dim - 1 held in floats.
    Tops: the shape of the bottom, then num_output. Of bottom-up-attention, num_output replaces a last axis of size 1;
    this is taken for ids that an ArgMax makes.
    Blobs: weights (input_dim, num_output), bias (num_output,).
    Source: caffe and peteanderson80/caffe ``src/caffe/layers/embed_layer.cpp``.
    """
    param = layer.param
    rows, outputs = positive_sizes(
        param, "input_dim", "num_output", fix="set input_dim and num_output in embed_param"
    )
    table = build.parameter(layer, (rows, outputs), "weights", filler="weight_filler")
    if _has_axis_to_replace(build, layer, ids):
        ids = build.reshape(ids, ids.shape[:-1])
    y = build.add(Gather(), table, build.add(Cast(DType.INT32), ids))
    if param.bias_term:
        bias = build.parameter(layer, (outputs,), "bias", filler="bias_filler", kind="bias")
        y = y + build.aligned(bias, len(y.shape))
    return [y]


def _has_axis_to_replace(build: LayerBuilder, layer: Layer, ids: Value) -> bool:
    """Whether the last axis becomes the row: in bottom-up-attention, whose nets embed the class of each region."""
    if ids.shape[-1:] != (1,):
        return False
    maker = build.writer(ids)
    if maker is not None and maker.origin.type == "ArgMax":
        return which_fork(build, layer, "bottom-up-attention") == "bottom-up-attention"
    return build.options.fork == "bottom-up-attention"
