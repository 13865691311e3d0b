"""Layers that bring numbers to a scale."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.ir import Array, Shape, Value, fixed
from prototrt.surgery.layer_builder import LayerBuilder, canonical_axis, layer_rule, stated
from prototrt.surgery.ops import ADD, LRN, MULTIPLY, Affine, Softmax


@layer_rule("BatchNorm")
def batch_norm(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``(x - mean) / sqrt(variance + eps)`` per channel, with the stored statistics.

    Becomes: Affine.
    Blobs: sums of means (C,), sums of variances (C,), the factor (1,) to divide both by;
    a factor of 0 makes both 0.
    Source: caffe ``src/caffe/layers/batch_norm_layer.cpp``, phase TEST.
    """
    if stated(layer.param, "use_global_stats") is False:
        raise UnsupportedLayerError("use_global_stats is false, expected the stored statistics")
    channels = fixed(x.shape[1], "axis 1 (channels)") if len(x.shape) > 1 else 1
    mean = build.parameter(layer, (channels,), "mean", kind="mean")
    variance = build.parameter(layer, (channels,), "variance", kind="variance")
    factor = build.parameter(layer, (1,), "scale_factor", kind="scale")
    assert mean.data is not None
    assert variance.data is not None
    assert factor.data is not None
    share = 0.0 if factor.data[0] == 0 else 1.0 / float(factor.data[0])
    scale = 1 / np.sqrt(variance.data * share + float(layer.param.eps))
    shift = -mean.data * share * scale
    return [affine(build, x, scale.astype(np.float32), shift.astype(np.float32))]


def affine(build: LayerBuilder, x: Value, scale: Array, shift: Array) -> Value:
    """``x * scale + shift`` along axis 1; a blob of one axis is a single channel."""
    rows = x if len(x.shape) > 1 else build.reshape(x, (*x.shape, 1))
    y = build.add(Affine(), rows, build.constant(scale, "scale"), build.constant(shift, "shift"))
    return build.reshape(y, x.shape)


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
        axis, shape = _covered(param.axis, param.num_axes, x.shape)
        factor = build.parameter(layer, shape, "scale", filler=stated(param, "filler"), kind="scale")
    else:
        axis, shape = _given(param.axis, factor.shape, x.shape)
    bias = None
    if param.bias_term:
        bias = build.parameter(layer, shape, "bias", filler=stated(param, "bias_filler"), kind="bias")
    if axis == 1 and len(shape) == 1 and factor.data is not None:
        shift = np.zeros(factor.data.shape, np.float32) if bias is None else bias.data
        assert shift is not None
        return [affine(build, x, factor.data, shift)]
    y = build.add(MULTIPLY, x, build.aligned(factor, len(x.shape), axis))
    return [y if bias is None else build.add(ADD, y, build.aligned(bias, len(x.shape), axis))]


def _covered(axis: int, num_axes: int, shape: Shape) -> tuple[int, Shape]:
    """The axes of the bottom that a learned scale covers: where they begin, and their sizes."""
    first = canonical_axis(axis, shape, "axis")
    if num_axes < -1 or first + num_axes > len(shape):
        raise NetError(f"num_axes is {num_axes} from axis {first} on, but the bottom has {len(shape)} axes")
    return first, shape[first:] if num_axes == -1 else shape[first : first + num_axes]


def _given(axis: int, factor: Shape, shape: Shape) -> tuple[int, Shape]:
    """The axes of the first bottom that the second one covers."""
    first = canonical_axis(axis, shape, "axis") if factor else 0
    if shape[first : first + len(factor)] != factor:
        raise ShapeError(
            f"the second bottom has the shape {factor}, expected that of the first, {shape}, from axis {first} on"
        )
    return first, factor


@layer_rule("LRN")
def lrn(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x / (k + alpha / size * sum of squares of the size channels around)^beta``.

    Becomes: LRN.
    Bottoms: (N, C, H, W).
    Source: caffe ``src/caffe/layers/lrn_layer.cpp``.
    """
    param = layer.param
    if len(x.shape) != 4:
        raise ShapeError(f"shape is {x.shape}, expected (N, C, H, W)")
    if param.local_size % 2 == 0:
        raise NetError(f"local_size is {param.local_size}, expected an odd number")
    if param.norm_region != type(param).ACROSS_CHANNELS:
        raise UnsupportedLayerError("norm_region is WITHIN_CHANNEL, expected ACROSS_CHANNELS")
    return [build.add(LRN(int(param.local_size), param.alpha, param.beta, param.k), x)]


@layer_rule("Softmax")
def softmax(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``exp(x) / sum(exp(x))`` along ``axis``.

    Becomes: Softmax.
    Source: caffe ``src/caffe/layers/softmax_layer.cpp``.
    """
    return [build.add(Softmax(canonical_axis(layer.param.axis, x.shape, "axis")), x)]
