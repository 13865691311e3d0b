"""Layers that normalize values."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.building.expression import Value, centre
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    canonical_axis,
    expect_axes,
    field_if_set,
    layer_rule,
    misfit,
)
from prototrt.surgery.building.layer_rules import python_rule, which_fork
from prototrt.surgery.building.limits import MOST_AXES
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import LRN, AveragePool, Pad, Softmax


@layer_rule("Normalize")
def normalize(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x`` over its L2 norm, times a learned scale, of SSD; ``x`` over its L2 or L1 norm, of NormFace.

    Becomes: Multiply or Abs, Reduce, Sqrt, Divide, Multiply.
    SSD: ``norm_param``, and a blob: () with ``channel_shared``, else (C,). The norm is
    ``sqrt(sum of squares + eps)``, of an image with ``across_spatial``, else of each place.
    NormFace, SphereFace: ``normalize_param``, no blob. The norm of each place is ``sqrt(sum of squares + 1e-6)``,
    or ``sum of magnitudes + 1e-6``.
    Bottoms: (N, C, ...), up to four axes. Tops: SSD: the shape of the bottom. NormFace: four axes; optionally
    the norms (N, 1, H, W).
    Source: SSD and happynear/caffe-windows ``src/caffe/layers/normalize_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, ...) with up to four axes", 2, 4)
    if _has_learned_scale(build, layer):
        return [_scale_to_norm(build, layer, x)]
    top, norm = _divide_by_norm(layer, build.aligned(x, 4, 0))
    return [top, norm] if len(layer.tops) == 2 else [top]


def _has_learned_scale(build: LayerBuilder, layer: Layer) -> bool:
    """Whether it is SSD's layer."""
    fields = [name for name in ("norm_param", "normalize_param") if layer.message.HasField(name)]
    if len(fields) == 2:
        raise NetError(
            "states both norm_param and normalize_param",
            because="the first belongs to SSD, the second to NormFace",
            fix="remove the one that is not meant",
        )
    if fields:
        return fields == ["norm_param"]
    if layer.blobs is not None:
        return len(layer.blobs) > 0
    return which_fork(build, layer, "happynear") == "ssd"


def _scale_to_norm(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    param = layer.message.norm_param
    axes = tuple(range(1, len(x.shape))) if param.across_spatial else (1,)
    total = (x * x).named("squares").sum(*axes)
    y = x / total.shifted(param.eps).sqrt().named("norm")
    shape = () if param.channel_shared else (fixed(x.shape[1], "axis 1 (channels)"),)
    filler = field_if_set(param, "scale_filler") or message_class("FillerParameter")(value=1)
    factor = build.parameter(layer, shape, "scale", filler=filler, kind="scale")
    return y * build.aligned(factor, len(x.shape), 1 if shape else 0)


def _divide_by_norm(layer: Layer, x: Value) -> tuple[Value, Value]:
    """``x`` over its norm at each place, and the norms."""
    kind = layer.message.normalize_param.normalize_type
    if kind not in ("L2", "L1"):
        raise NetError(f'normalize_type is "{kind}", expected "L2" or "L1"', fix="remove it to use L2")
    norm = ((x * x).named("squares") if kind == "L2" else abs(x)).sum(1) + 1e-6
    if kind == "L2":
        norm = norm.sqrt().named("norm")
    return x / norm, norm


@python_rule("l2norm_layer.L2NormLayer", "norm2layer.Norm2Layer")
def rows_of_length_one(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Each item over its L2 norm; an item of zeros stays as it is. From programs for triplet losses.

    Becomes: Multiply, Reduce, Sqrt, Select, Divide.
    Bottoms: (N, C), or with further axes of size 1. Tops: (N, C).
    Source: ``sklearn.preprocessing.normalize``; hizhangp/triplet ``l2norm_layer.py``, tripletloss ``norm2layer.py``.
    """
    if len(x.shape) < 2 or any(size != 1 for size in x.shape[2:]):
        raise misfit(layer, 0, x, "(N, C)", "flatten it to two axes")
    rows = build.reshape(x, x.shape[:2])
    norm = (rows * rows).sum(1).sqrt().named("norm")
    return [rows / (norm > 0).chosen(norm, 1)]


@layer_rule("GroupNorm")
def group_norm(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``(x - mean) / sqrt(variance + eps)`` of each of ``group_num`` groups of channels. From GroupNorm-caffe.

    Becomes: Reshape, Reduce and arithmetic.
    Other forks state the number of groups as ``group_ratio``, or as ``group``; the latter has factors and biases.
    Bottoms: (N, C, ...). Tops: one, of the same shape. A Scale behind it has factors and biases.
    Blobs: with ``group``, factors and biases (1, C, 1, 1).
    Source: blankWorld/GroupNorm-caffe ``group_norm_layer.cpp``, ``group_norm_layer.cu``; the files of these names in
    two other forks.
    """
    expect_axes(layer, 0, x, "(N, C, ...)", 2, MOST_AXES - 1)
    names = [name for name in ("group", "group_ratio") if layer.param.HasField(name)] or ["group_num"]
    channels, groups = fixed(x.shape[1], "axis 1 (channels)"), int(getattr(layer.param, names[0]))
    if groups < 1 or channels % groups:
        raise NetError(
            f"{names[0]} is {groups}, expected a divisor of the {channels} channels",
            fix=f"set {names[0]} in group_norm_param",
        )
    parts = x.reshape(x.shape[0], groups, channels // groups, *x.shape[2:])
    difference, variance, _ = centre(parts, tuple(range(2, len(parts.shape))))
    normal = (difference / variance.shifted(layer.param.eps).sqrt()).reshape(*x.shape)
    if names == ["group"]:
        shape = (1, channels, 1, 1)
        scale = build.parameter(layer, shape, "factors", filler="scale_filler", kind="scale")
        bias = build.parameter(layer, shape, "biases", filler="bias_filler", kind="bias")
        factors, biases = (
            build.reshape(each, (1, channels, *[1] * (len(x.shape) - 2))) for each in (scale, bias)
        )
        normal = normal * factors + biases
    return [normal]


@layer_rule("L2Normalize", "NormL2", "Normalization", "NormalizationL2")
def items_of_length_one(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Each item over its L2 norm. From forks for faces and vehicles.

    Becomes: Multiply, Reduce, Sqrt, Divide.
    NormL2 and L2Normalize add 1e-7 to the sum of squares, and their top always has four axes.
    Bottoms: (N, ...), of these two up to four axes. Tops: one, of the same shape.
    Source: xialuxi/arcface-caffe ``AdaCos/normL2_layer.cpp``; liu-xb/GGL ``normalization_l2_layer.cpp``;
    Gomdoree/caffe-triplet and liuyuisanai/CaffeMex_v2 ``src/caffe/layers/normalization_layer.cpp``;
    gy20073/compact_bilinear_pooling ``src/caffe/layers/l2_normalize_layer.cpp``.
    """
    if layer.type == "Normalization" and layer.param.norm != layer.param.L2:
        raise UnsupportedLayerError(
            "norm is L1",
            because="the fork then divides the first number of each item alone",
            fix=CUT_BEFORE_LAYER,
        )
    is_with_eps = layer.type in ("L2Normalize", "NormL2")
    expect_axes(layer, 0, x, "(N, C, ...)", 2, 4 if is_with_eps else MOST_AXES)
    top = build.aligned(x, 4, 0) if is_with_eps else x
    total = (top * top).sum(*range(1, len(top.shape)))
    norm = (total + 1e-7 if is_with_eps else total).sqrt().named("norm")
    return [top / norm]


@layer_rule("MVN")
def mvn(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``(x - mean) / (sqrt(variance) + eps)`` of each channel, or of each item with ``across_channels``.

    Becomes: Reduce and arithmetic.
    ``normalize_variance: false`` leaves the division out.
    Bottoms: up to four axes, read as (N, C, H, W). Tops: one, with four axes in any case.
    Source: caffe ``src/caffe/layers/mvn_layer.cpp``.
    """
    param = layer.param
    expect_axes(layer, 0, x, "at most four axes", 0, 4)
    image = build.aligned(x, 4, 0)
    difference, variance, _ = centre(image, (1, 2, 3) if param.across_channels else (2, 3))
    if not param.normalize_variance:
        return [difference]
    return [difference / variance.sqrt().shifted(param.eps)]


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
    expect_axes(layer, 0, x, "(N, C, H, W)")
    if param.local_size % 2 == 0:
        raise NetError(
            f"local_size is {param.local_size}, expected an odd number",
            because="the element itself is in the middle",
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
    squares = (x * x).named("squares").apply(Pad(around, around))
    mean = squares.apply(AveragePool((size, size), (1, 1), (0, 0), (0, 0))).named("mean")
    base = mean.scaled(param.alpha) + 1
    return x * base ** -float(param.beta)


@layer_rule("Softmax")
def softmax(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``exp(x) / sum(exp(x))`` along ``axis``.

    Becomes: Softmax.
    Source: caffe ``src/caffe/layers/softmax_layer.cpp``.
    """
    return [build.add(Softmax(canonical_axis(layer.param.axis, x.shape, "axis")), x)]
