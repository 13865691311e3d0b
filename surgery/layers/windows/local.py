"""Windows with weights of their own at each place."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule, positive_sizes
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import MatMul, Patches


@layer_rule("Local")
def local(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Cross-correlation with other weights at each place. From DeepFace's forks and happynear's.

    Becomes: Patches, MatMul, Add.
    Bottoms: (N, C, H, W), of a fixed size. Tops: (N, ``num_output``, h, w).
    Blobs: weights (``num_output``, 1, C * kernel_size^2, h * w), and unless ``bias_term`` is false a bias
    (1, 1, ``num_output``, h * w).
    Source: happynear/caffe-windows ``src/caffe/layers/local_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    positive_sizes(param, "num_output", "kernel_size", "stride", fix="state each as 1 or more in local_param")
    kernel, stride, pad = (int(each) for each in (param.kernel_size, param.stride, param.pad))
    channels, *plane = (fixed(x.shape[axis], f"axis {axis}") for axis in (1, 2, 3))
    if min(plane) + 2 * pad < kernel:
        raise NetError(
            f"kernel_size is {kernel}, but the padded image has {plane[0] + 2 * pad} x {plane[1] + 2 * pad} pixels",
            fix=f"use a kernel_size of at most {min(plane) + 2 * pad}, or a larger image",
        )
    rows, columns = ((side + 2 * pad - kernel) // stride + 1 for side in plane)
    seen, places, outputs = channels * kernel * kernel, rows * columns, int(param.num_output)
    weight = build.parameter(layer, (outputs, 1, seen, places), "weight", filler="weight_filler")
    bias = (
        build.parameter(layer, (1, 1, outputs, places), "bias", filler="bias_filler", kind="bias")
        if param.bias_term
        else None
    )
    patches = x.apply(Patches((kernel, kernel), (stride, stride), (pad, pad), (1, 1)))
    items = patches.reshape(x.shape[0], seen, places).transpose(2, 0, 1)
    at_places = items.apply(MatMul(), weight.reshape(outputs, seen, places).transpose(2, 1, 0))
    y = at_places.transpose(1, 2, 0)
    y = y if bias is None else y + bias.reshape(1, outputs, places)
    return [y.reshape(x.shape[0], outputs, rows, columns)]
