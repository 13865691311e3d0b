"""Sums, products and limits of elements. From Synopsys' fork."""

from __future__ import annotations

from prototrt.surgery.rules import Layer, LayerBuilder, NetError, ShapeError, Value, layer_rule, ops


@layer_rule("Add", "Mul")
def broadcast_operation(build: LayerBuilder, layer: Layer, x: Value, y: Value | None = None) -> list[Value]:
    """Sum, or product, of two blobs, or of one and a learned one, as TensorFlow broadcasts. From Synopsys' fork.

    Becomes: Add or Multiply.
    Bottoms: of any shapes whose sizes, counted from the last axis, are equal or 1. Tops: one.
    Blobs: with one bottom a blob, of Mul in the shape ``mul_shape``.
    Source: synopsys-caffe ``src/caffe/layers/add_layer.cpp``, ``mul_layer.cpp``.
    """
    other = _learned_operand(build, layer) if y is None else y
    rank = max(len(x.shape), len(other.shape))
    one, two = (build.aligned(each, rank, rank - len(each.shape)) for each in (x, other))
    if any(a != b and 1 not in (a, b) for a, b in zip(one.shape, two.shape, strict=True)):
        raise ShapeError(
            f"shapes are {x.shape} and {other.shape}, expected sizes that are equal or 1, from the last axis on",
            fix="change the layers that make them, or add axes of size 1 to one of them with a Reshape",
        )
    return [build.add(ops.ADD if layer.type == "Add" else ops.MULTIPLY, one, two)]


def _learned_operand(build: LayerBuilder, layer: Layer) -> Value:
    """The stored blob, whose shape Mul states, and the weights file of Add knows."""
    shape = tuple(layer.param.mul_shape) if layer.type == "Mul" else None
    if shape is None and layer.blobs:
        shape = layer.blobs[0].shape
    if shape is None:
        raise NetError(
            "has one bottom, and no weights say what is added", fix="give the weights, or a second bottom"
        )
    return build.parameter(layer, shape, "operand", kind="scale" if layer.type == "Mul" else "bias")


@layer_rule("HardSigmoid")
def hard_sigmoid(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``alpha * x + beta``, from 0 to 1. From Synopsys' fork.

    Becomes: Multiply, Add, Clip.
    Source: synopsys-caffe ``src/caffe/layers/hard_sigmoid_layer.cpp``.
    """
    line = x.scaled(layer.param.alpha).shifted(layer.param.beta)
    return [line.apply(ops.Clip(0, 1))]


@layer_rule("HardSwish")
def hard_swish(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x * min(max(x + 3, 0), 6) / 6``. From Synopsys' fork.

    Becomes: Add, Clip, Multiply.
    Source: synopsys-caffe ``src/caffe/layers/hard_swish_layer.cpp``.
    """
    return [x * (x + 3).apply(ops.Clip(0, 6)) * (1 / 6)]
