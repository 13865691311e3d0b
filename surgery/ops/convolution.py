"""Convolution over any number of spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, Shape, Size, computable, element_count, fixed, range_of
from prototrt.surgery.ops.windows import Images, larger_smallest, sizes_of, window_index, windows_that_fit


@dataclass(frozen=True, slots=True)
class Kernels(Images):
    """What Convolution and Deconvolution have in common: a kernel that slides along the axes of x (N, C, ...).

    ``stride``, ``pad`` and ``dilation`` have one entry per spatial axis. The bias is (O,).
    """

    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int = 1

    constants: ClassVar[tuple[int, ...]] = (2,)
    weights: ClassVar[tuple[int, ...]] = (1,)

    def shape(self, x: Shape, kernel: Shape, bias: Shape) -> list[Shape]:
        spatial = tuple(self._out(x, kernel, axis) for axis in range(len(self.stride)))
        return [(x[0], bias[0], *spatial)]

    def _out(self, x: Shape, kernel: Shape, axis: int) -> Size:
        """The size of a spatial axis of the result."""
        raise AssertionError(f"{type(self).__name__} has no shape rule")


@dataclass(frozen=True, slots=True)
class Convolution(Kernels):
    """Cross-correlation of x (N, C, ...) with a kernel (O, C/group, ...), plus a bias (O,).

    ``pad`` is at both ends, zeros.
    """

    def _out(self, x: Shape, kernel: Shape, axis: int) -> Size:
        size = computable(x[2 + axis], f"axis {2 + axis}") + 2 * self.pad[axis]
        extent = self.dilation[axis] * (fixed(kernel[2 + axis], "the kernel") - 1) + 1
        return windows_that_fit(size, extent, self.stride[axis], 2 + axis)

    def evaluate(self, x: Array, kernel: Array, bias: Array) -> list[Array]:
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in self.pad)])
        (out,) = self.shape(x.shape, kernel.shape, bias.shape)
        sums = np.zeros((self.group, kernel.shape[0] // self.group, x.shape[0], *out[2:]), x.dtype)
        # All sizes are stated: NumPy cannot infer one of them when there are no items.
        images = padded.reshape(x.shape[0], self.group, kernel.shape[1], *padded.shape[2:])
        kernels = kernel.reshape(self.group, -1, *kernel.shape[1:])
        for place in product(*map(range, kernel.shape[2:])):
            corner = [p * d for p, d in zip(place, self.dilation, strict=True)]
            seen = images[window_index(corner, self.stride, out[2:])]
            weights = kernels[window_index(place, [1] * len(place), [1] * len(place))]
            for g in range(self.group):
                sums[g] += np.tensordot(weights[g].reshape(weights.shape[1:3]), seen[:, g], axes=(1, 1))
        y = np.moveaxis(sums.reshape(kernel.shape[0], *sums.shape[2:]), 0, 1)
        return [y + bias.reshape(-1, *(1,) * len(self.stride))]

    def multiply_adds(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        return element_count(outputs[0]) * math.prod(fixed(dim, "the kernel") for dim in inputs[1][1:])


@dataclass(frozen=True, slots=True)
class Deconvolution(Kernels):
    """The transpose of Convolution: every element of x (N, C, ...) adds a scaled kernel to the result.

    The kernel is (C, O/group, ...), the bias (O,). ``pad`` is cut from both ends of the result.
    """

    def _out(self, x: Shape, kernel: Shape, axis: int) -> Size:
        size = computable(x[2 + axis], f"axis {2 + axis}")
        extent = self.dilation[axis] * (fixed(kernel[2 + axis], "the kernel") - 1) + 1
        out = self.stride[axis] * (size - 1) + extent - 2 * self.pad[axis]
        if range_of(out).min < 1:
            raise ShapeError(
                f"the pad {self.pad[axis]} removes all of axis {2 + axis}, which becomes"
                f" {sizes_of(out + 2 * self.pad[axis])} before",
                fix=larger_smallest(size, "use a smaller pad"),
            )
        return out

    def evaluate(self, x: Array, kernel: Array, bias: Array) -> list[Array]:
        (out,) = self.shape(x.shape, kernel.shape, bias.shape)
        images = x.reshape(x.shape[0], self.group, x.shape[1] // self.group, *x.shape[2:])
        kernels = kernel.reshape(self.group, -1, *kernel.shape[1:])
        whole = [fixed(size, "a size") + 2 * pad for size, pad in zip(out[2:], self.pad, strict=True)]
        sums = np.zeros((self.group, kernel.shape[1], x.shape[0], *whole), x.dtype)
        for place in product(*map(range, kernel.shape[2:])):
            corner = [p * d for p, d in zip(place, self.dilation, strict=True)]
            lands = window_index(corner, self.stride, x.shape[2:])
            here: Any = (..., *place)
            for g in range(self.group):
                sums[g][lands] += np.tensordot(kernels[g][here], images[:, g], axes=(0, 1))
        y = np.moveaxis(sums.reshape(bias.size, *sums.shape[2:]), 0, 1)
        kept = [slice(pad, size - pad) for size, pad in zip(whole, self.pad, strict=True)]
        inside: Any = (..., *kept)
        return [y[inside] + bias.reshape(-1, *(1,) * len(self.stride))]

    def multiply_adds(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        return element_count(inputs[0]) * math.prod(fixed(dim, "the kernel") for dim in inputs[1][1:])


@dataclass(frozen=True, slots=True)
class Patches(Images):
    """The elements of x (N, C, ...) in sliding windows: (N, C * places of the window, windows...).

    Channel ``c * places + p`` holds the elements of channel c at place p of each window, counted row by row.
    ``pad`` is at both ends, zeros.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]

    def shape(self, x: Shape) -> list[Shape]:
        # Which elements each window sees is a constant.
        x = tuple(fixed(dim, f"axis {axis}") if axis else dim for axis, dim in enumerate(x))
        channels = fixed(x[1], "the number of channels")
        convolution = Convolution(self.stride, self.pad, self.dilation)
        ((_, _, *spatial),) = convolution.shape(x, (channels, channels, *self.window), (channels,))
        return [(x[0], channels * math.prod(self.window), *spatial)]

    def evaluate(self, x: Array) -> list[Array]:
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in self.pad)])
        (out,) = self.shape(x.shape)
        corners = (
            [p * d for p, d in zip(place, self.dilation, strict=True)]
            for place in product(*map(range, self.window))
        )
        seen = [padded[window_index(corner, self.stride, out[2:])] for corner in corners]
        return [np.stack(seen, 2).reshape(x.shape[0], *out[1:])]
