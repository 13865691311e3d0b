"""Maps that a number at each place multiplies, and what counts all channels of a place together."""

from __future__ import annotations

from prototrt.surgery.rules import Layer, LayerBuilder, NetError, Value, expect_axes, layer_rule, misfit, ops


@layer_rule("SpatialProduct")
def product_at_each_place(build: LayerBuilder, layer: Layer, x: Value, factor: Value) -> list[Value]:
    """``x * factor``, one factor at each place for all channels. From forks of DeepLab.

    Becomes: Multiply.
    Bottoms: (N, C, H, W) and (N, 1, H, W). Tops: (N, C, H, W).
    Source: Chrisding/seal ``caffe/src/caffe/layers/spatial_product_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    each = (x.shape[0], 1, *x.shape[2:])
    if factor.shape != each:
        raise misfit(layer, 1, factor, each, "give it one channel, and the other sizes of the first bottom")
    return [x * factor]


@layer_rule("ChannelScale")
def scale_of_all_channels(build: LayerBuilder, layer: Layer, x: Value, factor: Value) -> list[Value]:
    """``x * factor``, one factor at each place for all channels; ``x`` with ``do_forward: false``. From AMSoftmax.

    Becomes: Multiply.
    Bottoms: (N, C, H, W) or (N, C), and N * H * W factors. Tops: the shape of the first bottom.
    Source: happynear/caffe-windows ``src/caffe/layers/channel_scale_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, ...) with two to four axes", 2, 4)
    if layer.param.global_scale:
        raise NetError(
            "global_scale is true, expected false",
            because="a learned number then multiplies the whole blob",
            fix="use a Scale with that number, with num_axes: 0",
        )
    if not layer.param.do_forward:
        return [x]
    each = (x.shape[0], 1, *x.shape[2:])
    if factor.shape not in (each, (x.shape[0], *x.shape[2:])):
        raise misfit(layer, 1, factor, each, "give it one channel, and the other sizes of the first bottom")
    return [x * factor.reshape(*each)]


@layer_rule("MultiSoftmax")
def softmax_at_each_place(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Softmax over the channels of each place. From nets for surface normals.

    Becomes: Softmax.
    Bottoms: (N, C, H, W). Tops: one, of the same shape.
    Source: xiaolonw/caffe-3dnormal_joint_pose ``src/caffe/layers/multi_softmax_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, ...) with two to four axes", 2, 4)
    return [x.apply(ops.Softmax(1))]


@layer_rule("Norm")
def unit_vectors(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``x / (sqrt(sum of squares over the channels) + 1e-6)`` at each place. From nets for surface normals.

    Becomes: Multiply, Reduce, Sqrt, Add, Divide.
    Bottoms: (N, C, H, W). Tops: one, of the same shape.
    Source: xiaolonw/caffe-3dnormal_joint_pose ``src/caffe/layers/norm_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, ...) with two to four axes", 2, 4)
    lengths = (x * x).named("squares").sum(1).sqrt()
    return [x / lengths.shifted(1e-6)]
