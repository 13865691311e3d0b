"""Windows over videos: the 3D layers of C3D and P3D, and those that state shapes of windows."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.schema import Message, enum_name
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule
from prototrt.surgery.images.kernels import param_of
from prototrt.surgery.images.pooling import spans
from prototrt.surgery.images.windows import fields_of_length
from prototrt.surgery.layers.windows.convolution import convolve, deconvolve
from prototrt.surgery.layers.windows.pooling import pool, window_of_pooling


@layer_rule("Convolution3D")
def convolution_3d(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Convolution over length, height and width. From C3D.

    Becomes: Convolution.
    ``kernel_depth``, ``temporal_stride`` and ``temporal_pad`` are for the length; ``kernel_size``, ``stride`` and
    ``pad`` for height and width. ``filter_group`` and ``group`` change nothing.
    Bottoms: (N, C, L, H, W). Tops: (N, num_output, l, h, w).
    Blobs: weights (num_output, C, kernel_depth, kernel_size, kernel_size), bias (num_output,) or
    (1, 1, 1, 1, num_output).
    Source: facebook/C3D ``C3D-v1.0/src/caffe/layers/convolution3d_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, L, H, W)")
    param = param_of(layer)
    if int(param.num_output) % max(int(param.filter_group), 1):
        raise NetError(
            f"filter_group is {param.filter_group}, expected a divisor of num_output, {param.num_output}",
            fix="leave filter_group out",
        )
    return convolve(build, layer, x)


@layer_rule("Deconvolution3D")
def deconvolution_3d(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The transpose of Convolution3D: every element adds a scaled kernel to the result. From C3D.

    Becomes: Deconvolution.
    Fields, bottoms and tops: as of Convolution3D.
    Blobs: weights (C, num_output, kernel_depth, kernel_size, kernel_size), bias (num_output,) or
    (1, 1, 1, 1, num_output).
    Source: facebook/C3D ``C3D-v1.0/src/caffe/layers/deconvolution3d_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, L, H, W)")
    return deconvolve(build, layer, x)


@layer_rule("Pooling3D")
def pooling_3d(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pooling over length, height and width; sizes round up. From C3D and P3D.

    Becomes: MaxPool; Pad and AveragePool.
    C3D: ``kernel_depth`` and ``temporal_stride`` are for the length, the other fields for height and width. AVE divides
    by the window's size, clipped to the padded image; only AVE has a ``pad``.
    P3D: ``kernel_l``, ``stride_l`` and ``pad_l`` are for the length; windows stand as those of Pooling.
    Bottoms: (N, C, L, H, W). Tops: (N, C, l, h, w).
    Source: facebook/C3D ``C3D-v1.0/src/caffe/layers/pool3d_layer.cpp``; ZhaofanQiu/pseudo-3d-residual-networks
    ``caffe_add_layers/src/pooling3d_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, L, H, W)")
    param = param_of(layer)
    of_p3d = fields_of_length(param, "P3D") or ["global_pooling"] * param.global_pooling
    for field in fields_of_length(param, "C3D") if of_p3d else ():
        raise NetError(
            f"states {field} beside {' and '.join(of_p3d)}",
            because="the first belongs to the Pooling3D of C3D, the others to that of P3D",
            fix="remove the fields of the layer that is not meant",
        )
    window = window_of_pooling(param, x.shape[2:], "P3D" if of_p3d else "C3D")
    _expect_largest_or_mean(param)
    if not of_p3d and any(window.before) and param.pool != param.AVE:
        raise NetError(
            f"pad is {window.before[-1]}, but pool is not AVE", fix="remove pad: C3D pads only for AVE"
        )
    return [pool(build, param, x, spans(x.shape, window, drops="any" if of_p3d else "never"))]


@layer_rule("NdConvolution")
def nd_convolution(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Convolution with ``kernel_shape``, ``stride_shape`` and ``pad_shape``, one size per axis. From caffe3d.

    Becomes: Convolution; Reshape.
    Bottoms: (N, C, ...). Tops: (N, num_output, ...), without the axes along which there is one window.
    Blobs: weights (num_output, C/group, kernel...), bias (num_output,).
    Source: caffe3d ``cudnn_ndconv_layer.cpp``.
    """
    return [_without_ones(build, *convolve(build, layer, x))]


@layer_rule("NdPooling")
def nd_pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pooling with ``kernel_shape``, ``stride_shape`` and ``pad_shape``, one size per axis. From caffe3d.

    Becomes: MaxPool; Pad and AveragePool; Reshape.
    Sizes round down. AVE divides by the size of the window, padding included.
    Bottoms: (N, C, ...). Tops: (N, C, ...), without the axes along which there is one window.
    Source: caffe3d ``cudnn_ndpooling_layer.cpp``.
    """
    window = window_of_pooling(layer.param, x.shape[2:], "caffe3d")
    _expect_largest_or_mean(layer.param)
    return [
        _without_ones(build, pool(build, layer.param, x, spans(x.shape, window, floor=True, drops="never")))
    ]


def _expect_largest_or_mean(param: Message) -> None:
    if param.pool not in (param.MAX, param.AVE):
        name = enum_name("PoolingParameter.PoolMethod", param.pool)
        raise NetError(f"pool is {name}, expected MAX or AVE", fix="remove pool to use MAX")


def _without_ones(build: LayerBuilder, y: Value) -> Value:
    """Without the axes of one window: caffe3d leaves them out of its tops."""
    return build.reshape(y, (*y.shape[:2], *(dim for dim in y.shape[2:] if dim != 1)))
