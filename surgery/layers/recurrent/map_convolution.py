"""The convolutions of ConvLSTM and ConvGRU: one over all maps of a sequence, one over the maps of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, field_if_set
from prototrt.surgery.images.kernels import Geometry
from prototrt.surgery.ir import Array, Shape
from prototrt.surgery.recurrent.maps import MapProduct

_SIZES = ("pad", "kernel_size", "stride", "dilation")
_WITHOUT_EFFECT = ("axis", "bias_filler", "bias_term", "engine", "force_nd_im2col", "type", "weight_filler")
_READ = {*_SIZES, *_WITHOUT_EFFECT, "group", "num_output"}


@dataclass(frozen=True, slots=True, eq=False)
class MapConvolution:
    """A convolution with its stored numbers. ``field`` is the message that states it."""

    layer: Layer
    geometry: Geometry
    kernel: Value
    bias: Value
    field: str

    def over(self, build: LayerBuilder, x: Value, state: Shape | None = None) -> Value:
        """Each map of x (T, N, C, H, W) convolved. They must be as large as those of the state, if it is there."""
        y = self.geometry.convolve(build, x, self.kernel, self.bias)
        if state is not None:
            self._expect_size(y.shape[3:], state[3:])
        return y

    def product(self, state: Shape) -> MapProduct:
        """The product with a state (1, N, C, H, W), whose maps keep their size."""
        op = self.geometry.op
        (shape,) = op.shape(state[1:], self.kernel.shape, self.bias.shape)
        self._expect_size(shape[2:], state[3:])
        return MapProduct(op)

    def with_rows(self, build: LayerBuilder, change: Callable[[Array], Array]) -> MapConvolution:
        """With other rows of gates."""
        kernel, bias = (build.constant(change(value.array), "changed") for value in (self.kernel, self.bias))
        return replace(self, kernel=kernel, bias=bias)

    def _expect_size(self, size: Shape, expected: Shape) -> None:
        if size != expected:
            raise ShapeError(
                f"{self.field} makes maps of {_product(size)}, expected {_product(expected)}",
                because="that is the size of the maps of the state",
                fix=f"in {self.field}, set stride to 1, and pad to half of kernel_size, rounded down",
            )


def _product(size: Shape) -> str:
    return " x ".join(map(str, size))


def _geometry(message: Any, field: str, shape: Shape, outputs: int, *, keeps_size: bool) -> Geometry:
    """A convolution of maps (T, N, C, H, W). ``keeps_size``: the fork ignores stride, and pads to keep the size."""
    for name in (descriptor.name for descriptor, _ in message.ListFields()):
        if name not in _READ:
            raise NetError(
                f"states {name} in {field}, which the fork does not read",
                fix=f"use {', '.join(_SIZES)}, each once or once per axis",
            )
    param = message_class("ConvolutionParameter")()
    for name in _SIZES:
        getattr(param, name).extend(getattr(message, name))
    if keeps_size:
        param.ClearField("stride")
        param.pad[:] = [_half(message, field)]
    param.num_output, param.group, param.axis = outputs, message.group, 2
    geometry = Geometry("Convolution", param, shape, True)
    geometry.refuse_group()
    return geometry


def _half(message: Any, field: str) -> int:
    """The pad that keeps the size of a map."""
    sizes = list(message.kernel_size)
    if len(set(sizes)) != 1 or sizes[0] % 2 == 0:
        raise NetError(
            f"kernel_size in {field} is {sizes or 'missing'}, expected one odd number",
            fix="state kernel_size once: 1, 3, 5, ...",
        )
    dilation = message.dilation[0] if message.dilation else 1
    return int(dilation * (sizes[0] // 2))


def read_convolution(
    build: LayerBuilder,
    layer: Layer,
    message: Any,
    field: str,
    what: str,
    shape: Shape,
    outputs: int,
    *,
    fillers: Any = None,
    bias: bool = False,
    pieces: int = 1,
    keeps_size: bool = False,
) -> MapConvolution:
    """What the message in this field states, with the next blobs: the kernel, perhaps the bias, each in ``pieces``."""
    geometry = _geometry(message, field, shape, outputs, keeps_size=keeps_size)
    fillers = message if fillers is None else fillers
    rows = geometry.outputs // pieces
    kernels, biases = [], []
    for _ in range(pieces):
        shape = (rows, *geometry.kernel_shape[1:])
        filler = field_if_set(fillers, "weight_filler")
        kernels.append(build.parameter(layer, shape, what, filler=filler))
        if bias:
            filler = field_if_set(fillers, "bias_filler")
            biases.append(build.parameter(layer, (rows,), f"b of {what}", filler=filler, kind="bias"))
    nothing = build.constant(np.broadcast_to(np.float32(0), (geometry.outputs,)), "no_bias")
    return MapConvolution(
        layer, geometry, _join(build, kernels, what), _join(build, biases, "bias") if bias else nothing, field
    )


def _join(build: LayerBuilder, pieces: list[Value], hint: str) -> Value:
    return pieces[0] if len(pieces) == 1 else build.stacked([piece.array for piece in pieces], hint)
