"""Sliding kernels: learned weights, and windows laid out side by side."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    canonical_axis,
    layer_rule,
    misfit,
    refuse_fields_of,
)
from prototrt.surgery.ir import OpenSize, Shape, Size, computable, fixed, open_count, range_of
from prototrt.surgery.layers.spatial import pads_of_sides, per_axis
from prototrt.surgery.layers.windows import laid_out
from prototrt.surgery.ops import ADD, Convolution, Deconvolution, Pad, Patches, Slice

FIELDS_OF_VOLUMES = {
    "kernel_depth": "Convolution3D",
    "temporal_stride": "Convolution3D",
    "temporal_pad": "Convolution3D",
    "filter_group": "Convolution3D",
    "kernel_shape": "NdConvolution",
    "stride_shape": "NdConvolution",
    "pad_shape": "NdConvolution",
}
"""Fields that Convolution does not read, and the type that does."""
_DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution")
"""Types with one group per channel, unless ``group`` is stated."""


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
    return _convolved(build, layer, _geometry_of(layer, x.shape), [x, *others])


@layer_rule(*_DEPTHWISE)
def depthwise(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """Convolution with one group per channel, unless ``group`` is stated. From forks.

    Becomes: Convolution.
    Bottoms, tops and blobs: as of Convolution.
    Source: ``conv_dw_layer.cpp``, ``depthwise_conv_layer.cpp`` of the forks.
    """
    return _convolved(build, layer, _geometry_of(layer, x.shape), [x, *others])


@layer_rule("Deconvolution")
def deconvolution(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """The transpose of Convolution: every element adds a scaled kernel to the result.

    Becomes: Deconvolution.
    Bottoms: (N, C, ...), all of one shape. Tops: one per bottom, (N, num_output, ...).
    Blobs: weights (C, num_output/group, kernel...), bias (num_output,).
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``deconv_layer.cpp``.
    """
    geometry = _geometry_of(layer, x.shape)
    _refuse_unequal(layer, [x, *others])
    geometry.refuse_group()
    kernel_shape = (geometry.channels, geometry.outputs // geometry.group, *geometry.kernel)
    kernel = build.parameter(layer, kernel_shape, "weights", filler="weight_filler")
    bias = geometry.bias(build, layer)
    op = Deconvolution(geometry.stride, geometry.pad, geometry.dilation, geometry.group)
    tops = []
    for bottom in (x, *others):
        items = geometry.batched(build, bottom)
        y = (
            build.add(op, items, kernel, bias)
            if geometry.sides is None
            else _cut(build, op, geometry, items, kernel, bias)
        )
        tops.append(geometry.restored(build, y, bottom))
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
    geometry = _geometry_of(layer, x.shape, has_outputs=False)
    if not geometry.spatial:
        fix = "set axis to an earlier one, or add a Reshape before this layer"
        raise misfit(layer, 0, x, f"at least one axis after the channel axis, {geometry.axis}", fix)
    op = Patches(geometry.kernel, geometry.stride, geometry.pad, geometry.dilation)
    batched = geometry.batched(build, x)
    items = geometry.overhung(build, batched)
    is_open = any(isinstance(size, OpenSize) for size in items.shape[2:])
    patches = _open_patches(build, items, op) if is_open else build.add(op, items)
    return [geometry.restored(build, geometry.without_overhang(build, patches, batched), x)]


def _open_patches(build: LayerBuilder, x: Value, op: Patches) -> Value:
    """What each window over x (N, C, ...) sees, where sizes vary."""
    if any(op.pad):
        x = build.add(Pad((0, 0, *op.pad), (0, 0, *op.pad)), x, hint="padded")
    seen = laid_out(build, x, op.window, op.stride, op.dilation)
    places, windows = range(2, len(seen.shape), 2), range(3, len(seen.shape), 2)
    seen = seen.transpose(0, 1, *places, *windows)
    channels = fixed(x.shape[1], "axis 1 (channels)") * math.prod(op.window)
    return seen.reshape(x.shape[0], channels, *seen.shape[-len(windows) :])


def _convolved(build: LayerBuilder, layer: Layer, geometry: Geometry, bottoms: list[Value]) -> list[Value]:
    _refuse_unequal(layer, bottoms)
    geometry.refuse_group()
    kernel = build.parameter(layer, geometry.kernel_shape, "weights", filler="weight_filler")
    bias = geometry.bias(build, layer)
    return [geometry.convolved(build, bottom, kernel, bias) for bottom in bottoms]


def _refuse_unequal(layer: Layer, bottoms: list[Value]) -> None:
    for index, bottom in enumerate(bottoms):
        if bottom.shape != bottoms[0].shape:
            because = f'all bottoms share the weights, and that is the shape of "{layer.bottom_blob(0)}"'
            fix = "give all bottoms the same shape, or use a layer for each"
            raise misfit(layer, index, bottom, bottoms[0].shape, fix, because)


def _geometry_of(layer: Layer, shape: Shape, *, has_outputs: bool = True) -> Geometry:
    """The geometry of a layer for a bottom of this shape. Raises ``NetError`` and ``ShapeError``."""
    return _geometry(layer.type, layer.param.SerializeToString(), shape, has_outputs)


@lru_cache(maxsize=256)
def _geometry(kind: str, serialized: bytes, shape: Shape, has_outputs: bool) -> Geometry:
    """Worked out once for layers that state the same: nets have many layers of few kinds."""
    return Geometry(kind, message_class("ConvolutionParameter").FromString(serialized), shape, has_outputs)


class Geometry:
    """Kernel, stride, pad and dilation of a convolution_param, for a bottom of this shape. Layers share it.

    Raises ``NetError`` where Caffe ends the process.
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``LayerSetUp``.
    """

    def __init__(self, kind: str, param: Message, shape: Shape, has_outputs: bool) -> None:
        refuse_fields_of(param, FIELDS_OF_VOLUMES)
        self.axis = canonical_axis(param.axis, shape, "axis")
        self.spatial = len(shape) - self.axis - 1
        self.channels = int(fixed(shape[self.axis], f"axis {self.axis} (channels)"))
        self.outputs = int(param.num_output)
        if kind == "ConvolutionDepthwise" and not param.HasField("num_output"):
            self.outputs = self.channels  # its fork does not read num_output
        is_depthwise = kind in _DEPTHWISE and not param.HasField("group")
        self.group = self.channels if is_depthwise else int(param.group)
        self.kernel = _sizes(param, "kernel", self.spatial, None)
        self.stride = _sizes(param, "stride", self.spatial, 1)
        dilation = _dilation(param, self.spatial)
        # Caffe accepts 0, which changes nothing for a kernel of one element.
        self.dilation = tuple(
            max(step, 1) if size == 1 else step for step, size in zip(dilation, self.kernel, strict=True)
        )
        self._extents = [step * (size - 1) + 1 for step, size in zip(self.dilation, self.kernel, strict=True)]
        self.bias_term = bool(param.bias_term)
        self.sides = pads_of_sides(param, self.spatial)
        self.pad = (0,) * self.spatial if self.sides else _sizes(param, "pad", self.spatial, 0)
        self._refuse_zeros(has_outputs)

    def _refuse_zeros(self, has_outputs: bool) -> None:
        """Raise ``NetError`` for a size below 1."""
        least = {"kernel_size": self.kernel, "stride": self.stride, "dilation": self.dilation}
        if has_outputs:
            least |= {"num_output": (self.outputs,), "group": (self.group,)}
        for name, values in least.items():
            if min(values, default=1) < 1:
                raise NetError(
                    f"{name} is {min(values)}, expected at least 1",
                    because="TensorRT has no kernels over zero axes" if name == "dilation" else None,
                    fix=f"write a positive number for {name}",
                )

    def refuse_group(self) -> None:
        if self.channels % self.group or self.outputs % self.group:
            raise NetError(
                f"group is {self.group}, which does not divide"
                f" {self.channels} channels into {self.outputs} outputs",
                fix=f"set group to a divisor of {math.gcd(self.channels, self.outputs)}",
            )

    @property
    def kernel_shape(self) -> tuple[int, ...]:
        """Of the weights of a Convolution."""
        return (self.outputs, self.channels // self.group, *self.kernel)

    @property
    def op(self) -> Convolution:
        return Convolution(self.stride, self.pad, self.dilation, self.group)

    def convolved(self, build: LayerBuilder, x: Value, kernel: Value, bias: Value) -> Value:
        """Each item of ``x`` convolved."""
        items = self.padded(build, self.batched(build, x))
        y = build.add(self.op, self.overhung(build, items), kernel, bias)
        return self.restored(build, self.without_overhang(build, y, items), x)

    def bias(self, build: LayerBuilder, layer: Layer) -> Value:
        """The stored bias (num_output,), zeros where ``bias_term`` is false."""
        if not self.bias_term:
            return build.constant(np.broadcast_to(np.float32(0), (self.outputs,)), "no_bias")
        return build.parameter(layer, (self.outputs,), "bias", filler="bias_filler", kind="bias")

    def batched(self, build: LayerBuilder, x: Value) -> Value:
        """``x`` with one axis of items before the channels."""
        items = x.shape[:1] if self.axis == 1 else (open_count(x.shape[: self.axis], "an axis of items"),)
        return build.reshape(x, (*items, *x.shape[self.axis :]), hint="items")

    def padded(self, build: LayerBuilder, x: Value) -> Value:
        """``x`` (N, C, ...) with zeros on each of its sides, where the fields state a number for each."""
        if self.sides is None:
            return x
        before, after = self.sides
        return build.add(Pad((0, 0, *before), (0, 0, *after)), x, hint="padded")

    def overhung(self, build: LayerBuilder, x: Value) -> Value:
        """``x`` (N, C, ...), with zeros after it if the only window reaches past its padding, at some sizes at least.

        Caffe divides towards zero: a kernel that is too large by less than a stride fits once.
        """
        after = self._overhangs(x.shape)
        if not any(after):
            return x
        return build.add(Pad((0,) * len(x.shape), (0, 0, *after)), x, hint="overhang")

    def without_overhang(self, build: LayerBuilder, y: Value, x: Value) -> Value:
        """``y`` (N, C, windows...), as many as there are over ``x`` without the zeros after it, where that varies."""
        if not any(isinstance(dim, OpenSize) for dim in x.shape):
            return y
        for axis, more in enumerate(self._overhangs(x.shape), 2):
            size = computable(x.shape[axis])
            if more and isinstance(size, OpenSize):
                y = build.add(Slice(axis, 0, self._windows(size, axis - 2)), y, hint="windows")
        return y

    def _overhangs(self, shape: Shape) -> list[int]:
        """How far the kernel reaches past the smallest size of each axis, if that is less than its stride."""
        smallest = [size if isinstance(size, int) else size.range.min for size in map(computable, shape[2:])]
        if all(extent <= size for extent, size in zip(self._extents, smallest, strict=True)):
            return [0] * len(smallest)
        beyond = [
            extent - size - 2 * pad
            for extent, size, pad in zip(self._extents, smallest, self.pad, strict=True)
        ]
        return [more if 0 < more < stride else 0 for more, stride in zip(beyond, self.stride, strict=True)]

    def _windows(self, size: OpenSize, place: int) -> Size:
        """How many windows there are over a size at which the kernel may overhang: one where it does."""
        room = size + 2 * self.pad[place] - self._extents[place]
        most = range_of(room).max
        if most < self.stride[place]:
            return 1
        overhangs = (most - room) // (most + 1)  # 1 where there is less than no room, else 0
        return room // self.stride[place] + 1 + overhangs

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
            raise NetError(
                f"states both {plain} and {height} or {width}",
                fix=f"remove {plain} if the axes differ, else {height} and {width}",
            )
        if spatial != 2:
            raise NetError(
                f"{height} and {width} are for 2 spatial axes, the bottom has {spatial}",
                fix=f"state {plain}, once or once per axis",
            )
        _refuse_half(param, name, height, width)
        return getattr(param, height), getattr(param, width)
    return per_axis(values, plain, spatial, default)


def _dilation(param: Any, spatial: int) -> tuple[int, ...]:
    """How far apart the elements of a kernel are: ``dilation``, or ``hole_h`` and ``hole_w`` of DeepLab."""
    if not (param.HasField("hole_h") or param.HasField("hole_w")):
        return per_axis(list(param.dilation), "dilation", spatial, 1)
    if spatial != 2 or param.dilation:
        raise NetError(
            "states hole_h or hole_w, and dilation"
            if param.dilation
            else "states hole_h or hole_w for other axes",
            fix="state dilation, once or once per axis, without hole_h and hole_w",
        )
    return param.hole_h, param.hole_w


def _refuse_half(param: Any, name: str, height: str, width: str) -> None:
    """A kernel or stride stated for only one axis is 0 for the other; a pad may be 0."""
    for field in (height, width):
        if name != "pad" and not param.HasField(field):
            other = width if field == height else height
            raise NetError(
                f"states {other} without {field}",
                because=f"{field} is then 0, not the same",
                fix=f"state both, or {'kernel_size' if name == 'kernel' else name} alone",
            )
