"""The kernel of a convolution, as its fields state it: its size, its steps, and what is around the bottom."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, canonical_axis, refuse_fields_of
from prototrt.surgery.images.spatial import pads_of_sides, per_axis
from prototrt.surgery.ir import OpenSize, Shape, Size, computable, fixed, open_count, range_of
from prototrt.surgery.ops import Convolution, Pad, Slice

_FIELDS_OF_VOLUMES = {
    "kernel_depth": "Convolution3D",
    "temporal_stride": "Convolution3D",
    "temporal_pad": "Convolution3D",
    "filter_group": "Convolution3D",
    "kernel_shape": "NdConvolution",
    "stride_shape": "NdConvolution",
    "pad_shape": "NdConvolution",
}
"""Fields that Convolution does not read, and the type that does."""


DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution")
"""Types with one group per channel, unless ``group`` is stated."""


def geometry_of(layer: Layer, shape: Shape, *, has_outputs: bool = True) -> Geometry:
    """The geometry of a layer for a bottom of this shape. Raises ``NetError`` and ``ShapeError``."""
    return _shared_geometry(layer.type, layer.param.SerializeToString(), shape, has_outputs)


@lru_cache(maxsize=256)
def _shared_geometry(kind: str, serialized: bytes, shape: Shape, has_outputs: bool) -> Geometry:
    """Worked out once for layers that state the same: nets have many layers of few kinds."""
    return Geometry(kind, message_class("ConvolutionParameter").FromString(serialized), shape, has_outputs)


def as_convolution_param(param: Message) -> Message:
    """The fields that a fork's message has in common with convolution_param, as a message of that type."""
    plain = message_class("ConvolutionParameter")()
    common = plain.DESCRIPTOR.fields_by_name
    for field, value in param.ListFields():
        if field.name in ("pad", "kernel_size", "stride", "dilation"):
            getattr(plain, field.name).extend(value)
        elif field.name in common and field.message_type is None and field.name != "engine":
            setattr(plain, field.name, value)
    return plain


class Geometry:
    """Kernel, stride, pad and dilation of a convolution_param, for a bottom of this shape. Layers share it.

    Raises ``NetError`` where Caffe ends the process.
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``LayerSetUp``.
    """

    def __init__(self, kind: str, param: Message, shape: Shape, has_outputs: bool) -> None:
        refuse_fields_of(param, _FIELDS_OF_VOLUMES)
        self.axis = canonical_axis(param.axis, shape, "axis")
        self.spatial = len(shape) - self.axis - 1
        self.channels = int(fixed(shape[self.axis], f"axis {self.axis} (channels)"))
        self.outputs = int(param.num_output)
        if kind == "ConvolutionDepthwise" and not param.HasField("num_output"):
            self.outputs = self.channels  # its fork does not read num_output
        is_depthwise = kind in DEPTHWISE and not param.HasField("group")
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

    def convolve(self, build: LayerBuilder, x: Value, kernel: Value, bias: Value) -> Value:
        """Each item of ``x`` convolved."""
        items = self.add_padding(build, self.merge_items(build, x))
        y = build.add(self.op, self.overhung(build, items), kernel, bias)
        return self.restore_items(build, self.without_overhang(build, y, items), x)

    def bias(self, build: LayerBuilder, layer: Layer) -> Value:
        """The stored bias (num_output,), zeros where ``bias_term`` is false."""
        if not self.bias_term:
            return build.constant(np.broadcast_to(np.float32(0), (self.outputs,)), "no_bias")
        return build.parameter(layer, (self.outputs,), "bias", filler="bias_filler", kind="bias")

    def merge_items(self, build: LayerBuilder, x: Value) -> Value:
        """``x`` with one axis of items before the channels."""
        items = x.shape[:1] if self.axis == 1 else (open_count(x.shape[: self.axis], "an axis of items"),)
        return build.reshape(x, (*items, *x.shape[self.axis :]), hint="items")

    def add_padding(self, build: LayerBuilder, x: Value) -> Value:
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

    def restore_items(self, build: LayerBuilder, y: Value, x: Value) -> Value:
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
