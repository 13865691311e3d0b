"""The kernel of a convolution, as its fields state it: its size, its steps, and what is around the bottom."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.schema import Message, message_class, parameter_fields
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, canonical_axis, field_if_set
from prototrt.surgery.images.windows import Form, Sizes, refuse_forks, window_of
from prototrt.surgery.ir import OpenSize, Shape, Size, computable, fixed, open_count, range_of
from prototrt.surgery.ops import Convolution, Pad, Slice

DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution")
"""Types with one group per channel, unless ``group`` is stated."""
_FORMS: dict[str, Form] = {"Convolution3D": "C3D", "Deconvolution3D": "C3D", "NdConvolution": "caffe3d"}


def geometry_of(layer: Layer, shape: Shape, *, has_outputs: bool = True) -> Geometry:
    """The geometry of a layer for a bottom of this shape. Raises ``NetError`` and ``ShapeError``."""
    return _shared_geometry(layer.type, param_of(layer).SerializeToString(), shape, has_outputs)


def param_of(layer: Layer) -> Message:
    """The message that the file states: C3D 1.1 has its own, 1.0 those of the plain layers."""
    fields = parameter_fields(layer.type)
    return getattr(layer.message, next(filter(layer.message.HasField, fields), fields[0]))


@lru_cache(maxsize=256)
def _shared_geometry(kind: str, serialized: bytes, shape: Shape, has_outputs: bool) -> Geometry:
    """Worked out once for layers that state the same: nets have many layers of few kinds."""
    return Geometry(kind, message_class("ConvolutionParameter").FromString(serialized), shape, has_outputs)


class Geometry:
    """Kernel, stride, pad and dilation of a convolution_param, for a bottom of this shape. Layers share it.

    Raises ``NetError`` where Caffe ends the process.
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``LayerSetUp``.
    """

    def __init__(self, kind: str, param: Message, shape: Shape, has_outputs: bool) -> None:
        form = _FORMS.get(kind, "Caffe")
        if form == "Caffe":
            refuse_forks(param)
        self._param = param
        self.axis = canonical_axis(param.axis, shape, "axis")
        self.spatial = len(shape) - self.axis - 1
        self.channels = int(fixed(shape[self.axis], f"axis {self.axis} (channels)"))
        self.outputs = int(param.num_output)
        if kind == "ConvolutionDepthwise" and not param.HasField("num_output"):
            self.outputs = self.channels  # its fork does not read num_output
        is_depthwise = kind in DEPTHWISE and not param.HasField("group")
        self.group = self.channels if is_depthwise else 1 if form == "C3D" else int(param.group)
        window = window_of(param, self.spatial, form, halves=("pad", "dilation"))
        self.kernel, self.stride, self.dilation = window.kernel, window.stride, window.dilation
        self._extents = window.extents
        is_even = window.before == window.after and min(window.before, default=0) >= 0
        self.sides = None if is_even else (window.before, window.after)
        self.pad = window.before if is_even else (0,) * self.spatial
        if has_outputs:
            for name, value in (("num_output", self.outputs), ("group", self.group)):
                if value < 1:
                    fix = f"write a positive number for {name}"
                    raise NetError(f"{name} is {value}, expected at least 1", fix=fix)

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

    def weights(self, build: LayerBuilder, layer: Layer, shape: Sizes | None = None) -> Value:
        """The stored weights, by default of a Convolution."""
        filler = field_if_set(self._param, "weight_filler")
        return build.parameter(layer, shape or self.kernel_shape, "weights", filler=filler)

    def bias(self, build: LayerBuilder, layer: Layer) -> Value:
        """The stored bias (num_output,), or zeros; C3D 1.0 stores (1, 1, 1, 1, num_output)."""
        if not self._param.bias_term:
            return build.constant(np.broadcast_to(np.float32(0), (self.outputs,)), "no_bias")
        held = layer.blobs[1].shape if layer.blobs is not None and len(layer.blobs) > 1 else ()
        row = (*held[:-1], self.outputs) if held[:-1] == (1, 1, 1, 1) else (self.outputs,)
        filler = field_if_set(self._param, "bias_filler")
        stored = build.parameter(layer, row, "bias", filler=filler, kind="bias")
        return build.reshape(stored, (self.outputs,))

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
