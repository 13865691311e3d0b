"""Sliding kernels with learned weights."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, ShapeError
from prototrt.surgery.ir import Shape, Value, fixed
from prototrt.surgery.layer_builder import LayerBuilder, canonical_axis, layer_rule, stated
from prototrt.surgery.ops import Convolution


@layer_rule("Convolution")
def convolution(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """Cross-correlation over the axes behind ``axis``, the same weights for every bottom.

    Becomes: Convolution.
    Bottoms: (N, C, ...), all of one shape. Tops: one a bottom, (N, num_output, ...).
    Axes in front of ``axis`` are independent items. Sizes round down.
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``conv_layer.cpp``.
    """
    geometry = Geometry(layer, x.shape)
    for other in others:
        if other.shape != x.shape:
            raise ShapeError(f"bottoms have the shapes {x.shape} and {other.shape}, expected equal ones")
    if geometry.channels % geometry.group or geometry.outputs % geometry.group:
        raise NetError(
            f"group is {geometry.group}, which does not divide"
            f" {geometry.channels} channels into {geometry.outputs} outputs",
            fix="use a group that divides both",
        )
    kernel_shape = (geometry.outputs, geometry.channels // geometry.group, *geometry.kernel)
    kernel = build.parameter(layer, kernel_shape, "weights", filler=stated(layer.param, "weight_filler"))
    bias = geometry.bias(build, layer)
    op = Convolution(geometry.stride, geometry.pad, geometry.dilation, geometry.group)
    return [
        geometry.restored(build, build.add(op, geometry.batched(build, bottom), kernel, bias), bottom)
        for bottom in (x, *others)
    ]


class Geometry:
    """Kernel, stride, pad and dilation of a convolution_param, for a bottom of this shape.

    Raises ``NetError`` where Caffe ends the process.
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``LayerSetUp``.
    """

    def __init__(self, layer: Layer, shape: Shape) -> None:
        param = layer.param
        self.axis = canonical_axis(param.axis, shape, "axis")
        self.spatial = len(shape) - self.axis - 1
        self.channels = fixed(shape[self.axis], f"axis {self.axis} (channels)")
        self.outputs = int(param.num_output)
        self.group = int(param.group)
        self.kernel = _sizes(param, "kernel", self.spatial, None)
        self.stride = _sizes(param, "stride", self.spatial, 1)
        self.pad = _sizes(param, "pad", self.spatial, 0)
        self.dilation = _per_axis(list(param.dilation), "dilation", self.spatial, 1)
        self.bias_term = bool(param.bias_term)
        for name, values, least in (
            ("num_output", (self.outputs,), 1),
            ("group", (self.group,), 1),
            ("kernel_size", self.kernel, 1),
            ("stride", self.stride, 1),
            ("dilation", self.dilation, 1),
        ):
            if min(values, default=least) < least:
                raise NetError(
                    f"{name} is {min(values)}, expected at least {least}", fix=f"set {name} in the prototxt"
                )

    def bias(self, build: LayerBuilder, layer: Layer) -> Value:
        """The stored bias (num_output,), zeros where ``bias_term`` is false."""
        if not self.bias_term:
            return build.constant(np.zeros(self.outputs, np.float32), "no_bias")
        return build.parameter(
            layer, (self.outputs,), "bias", filler=stated(layer.param, "bias_filler"), kind="bias"
        )

    def batched(self, build: LayerBuilder, x: Value) -> Value:
        """``x`` with one axis of items in front of the channels, and at least one behind them."""
        items = (
            x.shape[:1]
            if self.axis == 1
            else (prod(fixed(dim, "an axis of items") for dim in x.shape[: self.axis]),)
        )
        return build.reshape(x, (*items, *x.shape[self.axis :]), hint="items")

    def restored(self, build: LayerBuilder, y: Value, x: Value) -> Value:
        """``y`` with the items' axes of ``x``."""
        return build.reshape(y, (*x.shape[: self.axis], *y.shape[1:]), hint="restored")


def _sizes(param: Any, name: str, spatial: int, default: int | None) -> tuple[int, ...]:
    """``kernel_size``, ``stride`` or ``pad``: once, once an axis, or as ``_h`` and ``_w``."""
    plain = "kernel_size" if name == "kernel" else name
    values = list(getattr(param, plain))
    height, width = f"{name}_h", f"{name}_w"
    if param.HasField(height) or param.HasField(width):
        if values:
            raise NetError(f"states both {plain} and {height} or {width}", fix="state one of them")
        if spatial != 2:
            raise NetError(f"{height} and {width} are for 2 spatial axes, the bottom has {spatial}")
        return getattr(param, height), getattr(param, width)
    return _per_axis(values, plain, spatial, default)


def _per_axis(values: list[int], name: str, spatial: int, default: int | None) -> tuple[int, ...]:
    if not values and default is not None:
        return (default,) * spatial
    if len(values) not in (1, spatial):
        raise NetError(
            f"{name} is stated {len(values)} times, expected once or {spatial} times",
            because=f"the bottom has {spatial} spatial axes",
        )
    return tuple(values * spatial if len(values) == 1 else values)
