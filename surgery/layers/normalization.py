"""Layers that bring numbers to a scale."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.surgery.expansion.layer_builder import LayerBuilder, canonical_axis, layer_rule, stated
from prototrt.surgery.ir import Value, fixed
from prototrt.surgery.ir.uniform_constants import map_elements
from prototrt.surgery.layers.scale import affine
from prototrt.surgery.ops import (
    ADD,
    DIVIDE,
    LRN,
    MULTIPLY,
    SQRT,
    SUBTRACT,
    AveragePool,
    Pad,
    Power,
    Reduce,
    ReduceKind,
    Softmax,
)


@layer_rule("BatchNorm")
def batch_norm(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``(x - mean) / sqrt(variance + eps)`` per channel, with stored statistics or those of the batch.

    Becomes: Affine; with ``use_global_stats: false`` Reduce and arithmetic.
    Bottoms: (N, C, ...), at least two axes. Tops: one, of the same shape.
    Blobs: sums of means (C,), sums of variances (C,), the factor (1,) to divide both by;
    a factor of 0 makes both 0.
    Source: caffe ``src/caffe/layers/batch_norm_layer.cpp``, phase TEST.
    """
    if len(x.shape) < 2:
        raise ShapeError(
            f"shape is {x.shape}, expected (N, C, ...)",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            fix="put a Reshape in front of the layer",
        )
    _refuse_learning(layer)
    uses_batch = stated(layer.param, "use_global_stats") is False
    if uses_batch and layer.blobs is None:
        build.leave_unread(3)
        return [_of_batch(build, layer, x)]
    channels = fixed(x.shape[1], "axis 1 (channels)")
    mean = build.parameter(layer, (channels,), "mean", kind="bias")
    variance = build.parameter(layer, (channels,), "variance", kind="variance")
    factor = build.parameter(layer, (1,), "scale_factor", kind="factor")
    if uses_batch:
        return [_of_batch(build, layer, x)]
    assert mean.data is not None
    assert variance.data is not None
    assert factor.data is not None
    share = 0.0 if factor.data[0] == 0 else 1.0 / float(factor.data[0])
    eps = float(layer.param.eps)
    with np.errstate(all="ignore"):  # Caffe goes on with infinity and NaN
        scale = map_elements(lambda stored: 1 / np.sqrt(stored * share + eps), variance.data)
        shift = map_elements(lambda stored, factor: -stored * share * factor, mean.data, scale)
    return [affine(build, x, scale.astype(np.float32, copy=False), shift.astype(np.float32, copy=False))]


def _refuse_learning(layer: Layer) -> None:
    """Statistics are counted, not learned: Caffe ends the process where a learning rate is stated.

    Not where three are stated, as older files do: it takes them for zeros.
    Source: caffe ``batch_norm_layer.cpp``, and ``UpgradeNetBatchNorm`` in ``upgrade_proto.cpp``.
    """
    specs = layer.message.param
    for index, spec in enumerate(specs[:3]):
        if spec.lr_mult != 0 and len(specs) != 3:
            raise NetError(
                f"lr_mult of param {index} is {spec.lr_mult:g}, expected 0",
                because="the layer's blobs are statistics, which are not learned",
                fix="write param { lr_mult: 0 }, or leave param out",
            )


def _of_batch(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    """Normalized with mean and variance over all axes but the channels'."""
    axes = (0, *range(2, len(x.shape)))
    centred, variance = _centred(build, x, axes)
    return build.add(DIVIDE, centred, build.add(SQRT, build.shifted(variance, layer.param.eps)))


def _centred(build: LayerBuilder, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """``x`` without its mean over the axes, and its variance over them."""
    mean = Reduce(ReduceKind.MEAN, axes)
    centred = build.add(SUBTRACT, x, build.add(mean, x, hint="mean"), hint="centred")
    return centred, build.add(mean, build.add(MULTIPLY, centred, centred), hint="variance")


@layer_rule("MVN")
def mvn(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``(x - mean) / (sqrt(variance) + eps)`` of each channel, or of each item with ``across_channels``.

    Becomes: Reduce and arithmetic.
    ``normalize_variance: false`` leaves the division out.
    Bottoms: up to four axes, read as (N, C, H, W). Tops: one, with four axes in any case.
    Source: caffe ``src/caffe/layers/mvn_layer.cpp``.
    """
    param = layer.param
    if len(x.shape) > 4:
        raise ShapeError(
            f"shape is {x.shape}, expected at most four axes",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            fix="put a Reshape in front of the layer",
        )
    image = build.aligned(x, 4, 0)
    centred, variance = _centred(build, image, (1, 2, 3) if param.across_channels else (2, 3))
    if not param.normalize_variance:
        return [centred]
    deviation = build.shifted(build.add(SQRT, variance), param.eps)
    return [build.add(DIVIDE, centred, deviation)]


@layer_rule("LRN")
def lrn(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x / (k + alpha / size * sum of squares around)^beta``, around: ``size`` channels, or pixels.

    Becomes: LRN; Pad, AveragePool and arithmetic.
    WITHIN_CHANNEL looks at ``size`` rows and columns, divides alpha by their product, and
    has 1 for k whatever ``k`` is.
    Bottoms: (N, C, H, W).
    Source: caffe ``src/caffe/layers/lrn_layer.cpp``.
    """
    param = layer.param
    if len(x.shape) != 4:
        raise ShapeError(
            f"shape is {x.shape}, expected (N, C, H, W)",
            blob=f'bottom "{layer.bottom_blob(0)}"',
            fix="put a Reshape in front of the layer",
        )
    if param.local_size % 2 == 0:
        raise NetError(
            f"local_size is {param.local_size}, expected an odd number",
            because="the element itself stands in the middle",
            fix=f"use {param.local_size + 1}",
        )
    if param.norm_region == type(param).WITHIN_CHANNEL:
        return [_lrn_within(build, layer, x)]
    return [build.add(LRN(int(param.local_size), param.alpha, param.beta, param.k), x)]


def _lrn_within(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    """``x * (1 + alpha * mean of squares)^-beta``; what lies outside counts as zeros."""
    param = layer.param
    size, pad = int(param.local_size), int(param.local_size) // 2
    if param.HasField("k") and param.k != 1:
        build.warn("k is ignored, as in Caffe: with WITHIN_CHANNEL it is 1")
    around = (0, 0, pad, pad)
    squares = build.add(Pad(around, around), build.add(MULTIPLY, x, x, hint="squares"))
    mean = build.add(AveragePool((size, size), (1, 1), (0, 0), (0, 0)), squares, hint="mean")
    base = build.add(ADD, build.scaled(mean, param.alpha), build.scalar(1, 4))
    return build.add(MULTIPLY, x, build.add(Power(-param.beta), base))


@layer_rule("Softmax")
def softmax(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``exp(x) / sum(exp(x))`` along ``axis``.

    Becomes: Softmax.
    Source: caffe ``src/caffe/layers/softmax_layer.cpp``.
    """
    return [build.add(Softmax(canonical_axis(layer.param.axis, x.shape, "axis")), x)]
