"""Sliding windows without weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.ir import Shape, Value, fixed
from prototrt.surgery.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ops import AveragePool, MaxPool, Pad


@dataclass(frozen=True, slots=True)
class Span:
    """Pooling windows along one axis: input ``size``, window, stride, pad, windows ``out``."""

    size: int
    window: int
    stride: int
    pad: int
    out: int

    @property
    def reach(self) -> int:
        """How far the last window reaches, from the start of the left padding."""
        return (self.out - 1) * self.stride + self.window


@layer_rule("Pooling")
def pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The largest element or the mean of sliding windows; sizes round up.

    Becomes: MaxPool; Pad and AveragePool.
    Bottoms: (N, C, H, W). A last window that would start inside the padding is dropped,
    where there is padding. AVE divides by the window's size, clipped to the padded image.
    Source: caffe ``src/caffe/layers/pooling_layer.cpp``.
    """
    if len(x.shape) != 4:
        raise ShapeError(
            f"shape is {x.shape}, expected (N, C, H, W)", blob=f'bottom "{layer.bottom_blob(0)}"'
        )
    rows, columns = spans(layer.param, x.shape)
    window, stride = (rows.window, columns.window), (rows.stride, columns.stride)
    pad = (rows.pad, columns.pad)
    methods = type(layer.param)
    if layer.param.pool == methods.MAX:
        after = (_beyond(rows, rows.pad), _beyond(columns, columns.pad))
        return [build.add(MaxPool(window, stride, pad, after), x)]
    if layer.param.pool == methods.AVE:
        if any(pad):
            x = build.add(Pad((0, 0, *pad), (0, 0, *pad)), x)
        after = (_beyond(rows, 2 * rows.pad), _beyond(columns, 2 * columns.pad))
        return [build.add(AveragePool(window, stride, (0, 0), after), x)]
    raise UnsupportedLayerError("pool is STOCHASTIC, expected MAX or AVE")


def _beyond(span: Span, padded: int) -> int:
    """How far the last window reaches beyond the input with this much padding."""
    return max(0, span.reach - span.size - padded)


def spans(param: Any, shape: Shape) -> tuple[Span, Span]:
    """Where the windows lie along height and width.

    Raises ``NetError`` where Caffe ends the process.
    """
    sizes = [fixed(shape[2], "the height"), fixed(shape[3], "the width")]
    windows = _windows(param, sizes)
    strides, pads = _pair(param, "stride", 1), _pair(param, "pad", 0)
    if min(strides) < 1 or min(windows) < 1:
        raise NetError(f"kernel is {windows} and stride {strides}, expected at least 1")
    if any(pad >= window for pad, window in zip(pads, windows, strict=True) if pad):
        raise NetError(f"pad is {pads}, expected less than the kernel {windows}")
    if param.global_pooling and (any(pads) or strides != (1, 1)):
        raise NetError("with global_pooling, pad must be 0 and stride 1")
    rounded = math.floor if param.round_mode == type(param).FLOOR else math.ceil
    found = []
    for size, window, stride, pad in zip(sizes, windows, strides, pads, strict=True):
        out = rounded((size + 2 * pad - window) / stride) + 1
        # Padding on one axis makes Caffe look at both.
        if any(pads) and (out - 1) * stride >= size + pad:
            out -= 1
        if out < 1:
            raise ShapeError(f"the window {windows} is larger than the bottom {shape} with its padding")
        found.append(Span(size, window, stride, pad, out))
    return found[0], found[1]


def _windows(param: Any, sizes: list[int]) -> tuple[int, int]:
    stated = param.HasField("kernel_size") or param.HasField("kernel_h") or param.HasField("kernel_w")
    if param.global_pooling:
        if stated:
            raise NetError("states both global_pooling and a kernel size", fix="state one of them")
        return sizes[0], sizes[1]
    if not stated:
        raise NetError("states no kernel size", fix="set kernel_size, or kernel_h and kernel_w")
    return _pair(param, "kernel", 0)


def _pair(param: Any, name: str, default: int) -> tuple[int, int]:
    """A size for height and width, stated once or as ``_h`` and ``_w``."""
    plain = "kernel_size" if name == "kernel" else name
    height, width = f"{name}_h", f"{name}_w"
    if param.HasField(height) or param.HasField(width):
        if param.HasField(plain):
            raise NetError(f"states both {plain} and {height} or {width}", fix="state one of them")
        return getattr(param, height), getattr(param, width)
    size = getattr(param, plain) if param.HasField(plain) else default
    return size, size
