"""How a window walks over the spatial axes: what convolution and pooling have in common."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.backends.readback.registry import Array, Layer, Shape, refuse_other_kind


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """A window's walk along one axis of ``length`` elements. ``before`` and ``after`` are the padding."""

    length: int
    count: int
    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def span(self) -> int:
        return self.dilation * (self.size - 1) + 1

    def overlap(self, low: int, high: int) -> Array:
        """How many elements of [low, high) each window covers, counted from the first unpadded element."""
        begin = np.arange(self.count) * self.stride - self.before
        covered: Array = np.maximum(0, np.minimum(begin + self.span, high) - np.maximum(begin, low))
        return covered


@dataclass(frozen=True, slots=True)
class Window:
    size: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape

    @classmethod
    def of(cls, layer: Layer, size: Shape) -> Window:
        """The window of a convolution (which has a dilation) or of a pooling (which has none)."""
        refuse_other_kind(layer.padding_mode, "EXPLICIT_ROUND_DOWN", "padding")
        return cls(
            size=size,
            stride=tuple(layer.stride_nd),
            dilation=tuple(getattr(layer, "dilation_nd", (1,) * len(size))),
            before=tuple(layer.pre_padding),
            after=tuple(layer.post_padding),
        )

    def walks(self, lengths: Shape) -> list[WindowSteps]:
        if len(lengths) != len(self.size):
            raise ValueError(f"a window of {self.size} cannot walk over {lengths}")
        return [self._walk(i, length) for i, length in enumerate(lengths)]

    def _walk(self, i: int, length: int) -> WindowSteps:
        stride, before, after = self.stride[i], self.before[i], self.after[i]
        span = self.dilation[i] * (self.size[i] - 1) + 1
        count = (length + before + after - span) // stride + 1
        return WindowSteps(length, count, self.size[i], stride, self.dilation[i], before, after)


def pad(x: Array, walks: list[WindowSteps], value: float) -> Array:
    """``x`` with what the walks need around its last axes."""
    widths = [(walk.before, walk.after) for walk in walks]
    if not any(map(any, widths)):
        return x
    return np.pad(x, [(0, 0)] * (x.ndim - len(walks)) + widths, constant_values=value)


def windows_along(x: Array, axis: int, walk: WindowSteps) -> Array:
    """A view of padded ``x``: ``axis`` counts the windows, whose elements are a new last axis."""
    view = sliding_window_view(x, walk.span, axis)[..., :: walk.dilation]
    chosen: list[slice] = [slice(None)] * view.ndim
    chosen[axis] = slice(0, (walk.count - 1) * walk.stride + 1, walk.stride)
    return view[tuple(chosen)]
