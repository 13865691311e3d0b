"""Windows over videos: the 3D layers of C3D, and those that state shapes of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.schema import enum_name
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, field_if_set, layer_rule
from prototrt.surgery.ir import fixed
from prototrt.surgery.layers.pooling import pool
from prototrt.surgery.layers.pooling_geometry import geometry, lengths_per_axis, spans
from prototrt.surgery.ops import AveragePool, Convolution, Deconvolution, MaxPool, Pad

Sizes = tuple[int, ...]


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
    param = _param(layer, "convolution3d_param", "convolution_param")
    windows = _windows_of_c3d(param, int(param.temporal_pad))
    if int(param.num_output) % max(int(param.filter_group), 1):
        raise NetError(
            f"filter_group is {param.filter_group}, expected a divisor of num_output, {param.num_output}",
            fix="leave filter_group out",
        )
    return [_convolve(build, layer, param, x, windows, group=1)]


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
    param = _param(layer, "convolution3d_param", "convolution_param")
    windows = _windows_of_c3d(param, int(param.temporal_pad))
    outputs, channels = int(param.num_output), fixed(x.shape[1], "axis 1 (channels)")
    if outputs < 1:
        raise NetError("num_output is 0, expected at least 1", fix="state the number of channels of the top")
    shape = (channels, outputs, *windows.kernel)
    kernel = build.parameter(layer, shape, "weights", filler=field_if_set(param, "weight_filler"))
    op = Deconvolution(windows.stride, windows.pad, (1,) * len(windows.stride), 1)
    return [build.add(op, x, kernel, _bias(build, layer, param, outputs))]


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
    param = _param(layer, "pooling3d_param", "pooling_param")
    if param.global_pooling or any(map(param.HasField, _LENGTHS_OF_P3D)):
        return [_pool_of_p3d(build, param, x)]
    windows = _windows_of_c3d(param, 0)
    if any(windows.pad) and param.pool != param.AVE:
        raise NetError(
            f"pad is {windows.pad[-1]}, but pool is not AVE", fix="remove pad: C3D pads only for AVE"
        )
    return [_pool(build, param, x, windows, rounds_up=True)]


_LENGTHS_OF_P3D = ("kernel_l", "stride_l", "pad_l")


def _pool_of_p3d(build: LayerBuilder, param: Any, x: Value) -> Value:
    for field in filter(param.HasField, ("kernel_depth", "temporal_stride")):
        raise NetError(
            f"states {field} beside {' and '.join(filter(param.HasField, _LENGTHS_OF_P3D)) or 'global_pooling'}",
            because="the first belongs to the Pooling3D of C3D, the others to that of P3D",
            fix="remove the fields of the layer that is not meant",
        )
    plain = lengths_per_axis(param)
    if plain.pool not in (plain.MAX, plain.AVE):
        raise _neither_largest_nor_mean(plain)
    windows, strides, (pads, _) = geometry(plain, x.shape[2:])
    return pool(build, plain, x, *spans(x.shape, windows, strides, pads, pads))


@layer_rule("NdConvolution")
def nd_convolution(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Convolution with ``kernel_shape``, ``stride_shape`` and ``pad_shape``, one size per axis. From caffe3d.

    Becomes: Convolution; Reshape.
    Bottoms: (N, C, ...). Tops: (N, num_output, ...), without the axes along which there is one window.
    Blobs: weights (num_output, C/group, kernel...), bias (num_output,).
    Source: caffe3d ``cudnn_ndconv_layer.cpp``.
    """
    windows = _windows_of_shapes(layer, x)
    group = int(layer.param.group)
    return [_without_ones(build, _convolve(build, layer, layer.param, x, windows, group))]


@layer_rule("NdPooling")
def nd_pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Pooling with ``kernel_shape``, ``stride_shape`` and ``pad_shape``, one size per axis. From caffe3d.

    Becomes: MaxPool; Pad and AveragePool; Reshape.
    Sizes round down. AVE divides by the size of the window, padding included.
    Bottoms: (N, C, ...). Tops: (N, C, ...), without the axes along which there is one window.
    Source: caffe3d ``cudnn_ndpooling_layer.cpp``.
    """
    windows = _windows_of_shapes(layer, x)
    return [_without_ones(build, _pool(build, layer.param, x, windows, rounds_up=False))]


@dataclass(frozen=True, slots=True)
class _VolumeWindows:
    """Sizes along the axes after the channels."""

    kernel: Sizes
    stride: Sizes
    pad: Sizes

    def __post_init__(self) -> None:
        if min(*self.kernel, *self.stride) < 1:
            raise NetError(
                f"kernel is {self.kernel} and stride {self.stride}, expected at least 1",
                fix="state numbers of at least 1 for all axes",
            )
        if any(pad >= size for pad, size in zip(self.pad, self.kernel, strict=True)):
            raise NetError(
                f"pad is {self.pad}, expected less than the kernel {self.kernel}",
                fix="use a smaller pad or a larger kernel",
            )


def _param(layer: Layer, newer: str, older: str) -> Any:
    """C3D 1.1 has its own messages, 1.0 those of the plain layers."""
    return getattr(layer.message, newer if layer.message.HasField(newer) else older)


def _windows_of_c3d(param: Any, temporal_pad: int) -> _VolumeWindows:
    size, stride, pad = (_once(param, name, other) for name, other in _C3D_FIELDS)
    depth = int(param.kernel_depth)
    return _VolumeWindows(
        (depth, size, size), (int(param.temporal_stride), stride, stride), (temporal_pad, pad, pad)
    )


_C3D_FIELDS = (("kernel_size", 0), ("stride", 1), ("pad", 0))


def _once(param: Any, name: str, other: int) -> int:
    """A field that C3D has once, and Caffe's Convolution once for each axis."""
    field = getattr(param, name)
    if isinstance(field, int):
        return field
    if len(field) > 1:
        raise NetError(
            f"{name} is stated {len(field)} times, expected once",
            fix=f"state one {name} for height and width, and the length's by itself",
        )
    return int(field[0]) if field else other


def _windows_of_shapes(layer: Layer, x: Value) -> _VolumeWindows:
    param, axes = layer.param, len(x.shape) - 2
    if not param.HasField("kernel_shape"):
        raise NetError("states no kernel_shape", fix="set kernel_shape, with one dim for each axis")
    sizes = []
    for name, other in (("kernel_shape", 0), ("stride_shape", 1), ("pad_shape", 0)):
        dims = [int(dim) for dim in getattr(param, name).dim] if param.HasField(name) else [other] * axes
        if len(dims) != axes:
            raise ShapeError(
                f"shape is {x.shape}, which has {axes} axes after the channels, but {name} has {len(dims)}",
                blob=f'bottom "{layer.bottom_blob(0)}"',
                fix="state one dim for each of these axes",
            )
        sizes.append(tuple(dims))
    return _VolumeWindows(*sizes)


def _convolve(
    build: LayerBuilder, layer: Layer, param: Any, x: Value, windows: _VolumeWindows, group: int
) -> Value:
    outputs, channels = int(param.num_output), fixed(x.shape[1], "axis 1 (channels)")
    if outputs < 1 or group < 1 or outputs % group or channels % group:
        raise NetError(
            f"num_output is {outputs} and group {group}, for {channels} channels",
            because="group divides both numbers of channels",
            fix="set num_output to 1 or more, and group to a divisor of both",
        )
    shape = (outputs, channels // group, *windows.kernel)
    kernel = build.parameter(layer, shape, "weights", filler=field_if_set(param, "weight_filler"))
    op = Convolution(windows.stride, windows.pad, (1,) * len(windows.stride), group)
    return build.add(op, x, kernel, _bias(build, layer, param, outputs))


def _bias(build: LayerBuilder, layer: Layer, param: Any, outputs: int) -> Value:
    """The second blob, or zeros without ``bias_term``."""
    if not param.bias_term:
        return build.constant(np.broadcast_to(np.float32(0), (outputs,)), "no_bias")
    held = layer.blobs[1].shape if layer.blobs is not None and len(layer.blobs) > 1 else ()
    row = (1, 1, 1, 1, outputs) if len(held) == 5 else (outputs,)
    stored = build.parameter(layer, row, "bias", filler=field_if_set(param, "bias_filler"), kind="bias")
    return build.reshape(stored, (outputs,))


def _pool(build: LayerBuilder, param: Any, x: Value, windows: _VolumeWindows, *, rounds_up: bool) -> Value:
    if param.pool not in (param.MAX, param.AVE):
        raise _neither_largest_nor_mean(param)
    sizes = [fixed(dim, f"axis {axis}") for axis, dim in enumerate(x.shape[2:], 2)]
    starts = [
        (_count(size, kernel, stride, pad, rounds_up=rounds_up) - 1) * stride
        for size, kernel, stride, pad in zip(sizes, windows.kernel, windows.stride, windows.pad, strict=True)
    ]
    is_mean, before = param.pool == param.AVE, windows.pad
    if is_mean and any(windows.pad):  # zeros count in a mean
        x = build.add(Pad((0, 0, *windows.pad), (0, 0, *windows.pad)), x, hint="padded")
        before, sizes = (0,) * len(before), [fixed(dim, "a padded axis") for dim in x.shape[2:]]
    ends = [size + pad for size, pad in zip(sizes, before, strict=True)]
    if min(starts) < 0 or any(start >= end for start, end in zip(starts, ends, strict=True)):
        raise ShapeError(
            f"the windows {windows.kernel} with a stride of {windows.stride} do not fit {tuple(sizes)} elements",
            fix="use smaller windows, a smaller stride or a larger input",
        )
    after = tuple(
        max(0, start + kernel - end) for start, kernel, end in zip(starts, windows.kernel, ends, strict=True)
    )
    return build.add((AveragePool if is_mean else MaxPool)(windows.kernel, windows.stride, before, after), x)


def _neither_largest_nor_mean(param: Any) -> NetError:
    name = enum_name("PoolingParameter.PoolMethod", param.pool)
    return NetError(f"pool is {name}, expected MAX or AVE", fix="remove pool to use MAX")


def _count(size: int, kernel: int, stride: int, pad: int, *, rounds_up: bool) -> int:
    """How many windows there are along an axis. Rounded down, the last one begins before the padding."""
    room = size + 2 * pad - kernel
    if rounds_up:
        return -(-room // stride) + 1
    count = room // stride + 1
    return count - (pad > 0 and (count - 1) * stride >= size + pad)


def _without_ones(build: LayerBuilder, y: Value) -> Value:
    """Without the axes of one window: caffe3d leaves them out of its tops."""
    return build.reshape(y, (*y.shape[:2], *(dim for dim in y.shape[2:] if dim != 1)))
