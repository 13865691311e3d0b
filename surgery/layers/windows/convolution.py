"""Sliding kernels: learned weights, and windows laid out side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, misfit, refuse_fields_of
from prototrt.surgery.images.kernels import DEPTHWISE, Geometry, geometry_of
from prototrt.surgery.images.windows import gather_windows
from prototrt.surgery.ir import OpenSize, fixed
from prototrt.surgery.ops import ADD, Deconvolution, Pad, Patches


@layer_rule("Convolution")
def convolution(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """Cross-correlation over the axes after ``axis``, the same weights for every bottom.

    Becomes: Convolution.
    Bottoms: (N, C, ...), all of one shape. Tops: one per bottom, (N, num_output, ...).
    Axes in front of ``axis`` are independent items. Sizes round down. The fields ``engine``
    and ``force_nd_im2col`` never change the result. ``hole_h`` and ``hole_w``, of DeepLab, are a dilation; ``pad_l``,
    ``pad_r``, ``pad_t`` and ``pad_b``, of Synopsys, pad each side.
    Blobs: weights (num_output, C/group, kernel...), bias (num_output,).
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``conv_layer.cpp``; the same of
    foss-for-synopsys-dwc-arc-processors/synopsys-caffe.
    """
    return convolve(build, layer, x, *others)


@layer_rule(*DEPTHWISE)
def depthwise(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """Convolution with one group per channel, unless ``group`` is stated. From forks.

    Becomes: Convolution.
    Bottoms, tops and blobs: as of Convolution.
    Source: ``conv_dw_layer.cpp``, ``depthwise_conv_layer.cpp`` of the forks.
    """
    return convolve(build, layer, x, *others)


@layer_rule("Deconvolution")
def deconvolution(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """The transpose of Convolution: every element adds a scaled kernel to the result.

    Becomes: Deconvolution.
    Bottoms: (N, C, ...), all of one shape. Tops: one per bottom, (N, num_output, ...).
    Blobs: weights (C, num_output/group, kernel...), bias (num_output,).
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``deconv_layer.cpp``.
    """
    return deconvolve(build, layer, x, *others)


def deconvolve(build: LayerBuilder, layer: Layer, *bottoms: Value) -> list[Value]:
    """Each bottom, by the fields and blobs of the layer."""
    geometry = geometry_of(layer, bottoms[0].shape)
    _refuse_unequal(layer, bottoms)
    geometry.refuse_group()
    kernel_shape = (geometry.channels, geometry.outputs // geometry.group, *geometry.kernel)
    kernel, bias = geometry.weights(build, layer, kernel_shape), geometry.bias(build, layer)
    op = Deconvolution(geometry.stride, geometry.pad, geometry.dilation, geometry.group)
    tops = []
    for bottom in bottoms:
        items = geometry.merge_items(build, bottom)
        y = (
            build.add(op, items, kernel, bias)
            if geometry.sides is None
            else _cut(build, op, geometry, items, kernel, bias)
        )
        tops.append(geometry.restore_items(build, y, bottom))
    return tops


def _cut(
    build: LayerBuilder, op: Deconvolution, geometry: Geometry, x: Value, kernel: Value, bias: Value
) -> Value:
    """A Deconvolution whose sides are cut by numbers of their own. Negative ones add room, where only the bias is."""
    assert geometry.sides is not None
    before, after = ((0, 0, *(-size for size in sizes)) for sizes in geometry.sides)
    nothing = build.constant(np.zeros(geometry.outputs, np.float32), "no_bias")
    y = build.add(Pad(before, after), build.add(op, x, kernel, nothing), hint="cut")
    return build.add(ADD, y, build.aligned(bias, len(y.shape), 1))


@layer_rule("Im2col")
def im2col(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """What each window of a convolution sees, as channels.

    Becomes: Patches; where sizes vary, Pad, a Gather for each axis, Transpose, Reshape.
    Bottoms: (N, C, ...). Tops: (N, C * kernel, windows...); the places of the window vary fastest.
    Source: caffe ``src/caffe/layers/im2col_layer.cpp``, ``src/caffe/util/im2col.cpp``.
    """
    refuse_fields_of(layer.param, dict.fromkeys(("pad_l", "pad_r", "pad_t", "pad_b"), "Convolution"))
    geometry = geometry_of(layer, x.shape, has_outputs=False)
    if not geometry.spatial:
        fix = "set axis to an earlier one, or add a Reshape before this layer"
        raise misfit(layer, 0, x, f"at least one axis after the channel axis, {geometry.axis}", fix)
    op = Patches(geometry.kernel, geometry.stride, geometry.pad, geometry.dilation)
    batched = geometry.merge_items(build, x)
    items = geometry.overhung(build, batched)
    is_open = any(isinstance(size, OpenSize) for size in items.shape[2:])
    patches = _open_patches(build, items, op) if is_open else build.add(op, items)
    return [geometry.restore_items(build, geometry.without_overhang(build, patches, batched), x)]


def _open_patches(build: LayerBuilder, x: Value, op: Patches) -> Value:
    """What each window over x (N, C, ...) sees, where sizes vary."""
    if any(op.pad):
        x = build.add(Pad((0, 0, *op.pad), (0, 0, *op.pad)), x, hint="padded")
    seen = gather_windows(build, x, op.window, op.stride, op.dilation)
    places, windows = range(2, len(seen.shape), 2), range(3, len(seen.shape), 2)
    seen = seen.transpose(0, 1, *places, *windows)
    channels = fixed(x.shape[1], "axis 1 (channels)") * math.prod(op.window)
    return seen.reshape(x.shape[0], channels, *seen.shape[-len(windows) :])


def convolve(build: LayerBuilder, layer: Layer, *bottoms: Value) -> list[Value]:
    """Each bottom, by the fields and blobs of the layer."""
    geometry = geometry_of(layer, bottoms[0].shape)
    _refuse_unequal(layer, bottoms)
    geometry.refuse_group()
    kernel, bias = geometry.weights(build, layer), geometry.bias(build, layer)
    return [geometry.convolve(build, bottom, kernel, bias) for bottom in bottoms]


def _refuse_unequal(layer: Layer, bottoms: Sequence[Value]) -> None:
    for index, bottom in enumerate(bottoms):
        if bottom.shape != bottoms[0].shape:
            because = f'all bottoms share the weights, and that is the shape of "{layer.bottom_blob(0)}"'
            fix = "give all bottoms the same shape, or use a layer for each"
            raise misfit(layer, index, bottom, bottoms[0].shape, fix, because)
