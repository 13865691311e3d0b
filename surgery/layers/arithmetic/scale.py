"""Scale and bias, learned or from a second bottom."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, canonical_axis, layer_rule
from prototrt.surgery.ir import Array, Shape
from prototrt.surgery.ops import Affine


@layer_rule("Scale")
def scale(build: LayerBuilder, layer: Layer, x: Value, factor: Value | None = None) -> list[Value]:
    """``x * scale + bias``; the scale is learned, or a second bottom.

    Becomes: Affine; Multiply, Add.
    Bottoms: x, optionally a scale whose shape is that of x from ``axis`` on, cut off anywhere.
    Blobs: scale (unless it is a bottom), and with ``bias_term`` a bias of the same shape.
    Source: caffe ``src/caffe/layers/scale_layer.cpp``, ``bias_layer.cpp``.
    """
    param = layer.param
    if factor is None:
        axis, shape = _covered_axes(param.axis, param.num_axes, x.shape)
        factor = build.parameter(layer, shape, "scale", filler="filler", kind="scale")
    else:
        axis, shape = _fitted_axis(layer, param.axis, factor.shape, x.shape)
    bias = None
    if param.bias_term:
        canonical_axis(param.axis, x.shape, "axis")  # Caffe asks, even where the scale is one number
        bias = build.parameter(layer, shape, "bias", filler="bias_filler", kind="bias")
    if axis == 1 and len(shape) == 1 and factor.data is not None:
        shift = np.broadcast_to(np.float32(0), factor.data.shape) if bias is None else bias.data
        assert shift is not None
        return [affine(build, x, factor.data, shift)]
    y = x * build.aligned(factor, len(x.shape), axis)
    return [y if bias is None else y + build.aligned(bias, len(x.shape), axis)]


@layer_rule("Bias")
def bias(build: LayerBuilder, layer: Layer, x: Value, summand: Value | None = None) -> list[Value]:
    """``x + bias``; the bias is learned, or a second bottom.

    Becomes: Add.
    Bottoms: x, optionally a bias whose shape is that of x from ``axis`` on, cut off anywhere.
    Blobs: bias (unless it is a bottom).
    Source: caffe ``src/caffe/layers/bias_layer.cpp``.
    """
    param = layer.param
    if summand is None:
        axis, shape = _covered_axes(param.axis, param.num_axes, x.shape)
        summand = build.parameter(layer, shape, "bias", filler="filler", kind="bias")
    else:
        axis, _ = _fitted_axis(layer, param.axis, summand.shape, x.shape)
    return [x + build.aligned(summand, len(x.shape), axis)]


def affine(build: LayerBuilder, x: Value, scale: Array, shift: Array, epsilon: float | None = None) -> Value:
    """``x * scale + shift`` along axis 1. ``epsilon`` is that of a batch normalization."""
    return build.add(Affine(epsilon), x, build.constant(scale, "scale"), build.constant(shift, "shift"))


def _covered_axes(axis: int, num_axes: int, shape: Shape) -> tuple[int, Shape]:
    """The axes of the bottom that a learned blob covers: where they begin, and their sizes."""
    first = canonical_axis(axis, shape, "axis")
    if num_axes < -1:
        raise NetError(
            f"num_axes is {num_axes}, expected a number of axes, or -1 for all from axis on",
            fix="use -1 or more",
        )
    if first + num_axes > len(shape):
        raise NetError(
            f"num_axes is {num_axes} from axis {first} on, but the bottom has {len(shape)} axes: {shape}",
            fix=f"use at most {len(shape) - first}, or -1 for all of them",
        )
    return first, shape[first:] if num_axes == -1 else shape[first : first + num_axes]


def _fitted_axis(layer: Layer, axis: int, scale_shape: Shape, shape: Shape) -> tuple[int, Shape]:
    """The axes of the first bottom that the second one covers; one number covers none."""
    first = canonical_axis(axis, shape, "axis") if scale_shape else 0
    if shape[first : first + len(scale_shape)] != scale_shape:
        raise ShapeError(
            f"shape is {scale_shape}, expected the sizes of {shape} from axis {first} on",
            blob=f'bottom "{layer.bottom_blob(1)}"',
            because=f'{shape} is the shape of the first bottom, "{layer.bottom_blob(0)}"',
            fix="use another axis, or give it these sizes",
        )
    return first, scale_shape
