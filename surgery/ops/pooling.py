"""The largest or the mean element of sliding windows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, Shape, computable, fixed
from prototrt.surgery.ops.windows import Images, window_index


@dataclass(frozen=True, slots=True)
class Windows(Images):
    """Windows over the last axes of x (N, C, ...): ``before`` and ``after`` are padding.

    Sizes round down. Padding never counts: no window is entirely in it.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def shape(self, x: Shape) -> list[Shape]:
        spatial = []
        for axis in range(len(self.window)):
            size = computable(x[2 + axis], f"axis {2 + axis}") + self.before[axis] + self.after[axis]
            spatial.append((size - self.window[axis]) // self.stride[axis] + 1)
        return [(*x[:2], *spatial)]

    def _window_elements(self, x: Array, fill: float) -> Iterator[Array]:
        """For each place in the window, the elements of x at that place in all windows."""
        pads = zip(self.before, self.after, strict=True)
        padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
        (out,) = self.shape(x.shape)
        for place in product(*map(range, self.window)):
            yield padded[window_index(place, self.stride, out[2:])]


@dataclass(frozen=True, slots=True)
class MaxPool(Windows):
    """The largest element of each window. It starts from the lowest number, so NaN is never larger."""

    def evaluate(self, x: Array) -> list[Array]:
        (out,) = self.shape(x.shape)
        is_float = x.dtype.kind == "f"
        lowest, padding = (np.finfo(x.dtype).min, -np.inf) if is_float else (np.iinfo(x.dtype).min,) * 2
        largest = np.full([fixed(size, "a size") for size in out], lowest, x.dtype)
        for seen in self._window_elements(x, padding):
            largest = np.where(seen > largest, seen, largest)
        return [largest]


@dataclass(frozen=True, slots=True)
class MaxPoolIndex(Windows):
    """The position, in its plane, of the first largest element of each window of x (N, C, H, W).

    Counted row by row, as a float. -1 where no element is larger than the lowest number.
    """

    def shape(self, x: Shape) -> list[Shape]:
        fixed(x[2], "the height"), fixed(x[3], "the width")  # the positions are constants
        return super(MaxPoolIndex, self).shape(x)  # noqa: UP008  slots make the class anew

    def evaluate(self, x: Array) -> list[Array]:
        (out,) = self.shape(x.shape)
        sizes = [fixed(size, "a size") for size in out]
        largest, index = np.full(sizes, np.finfo(x.dtype).min, x.dtype), np.full(sizes, -1, x.dtype)
        places = np.arange(x.shape[2] * x.shape[3], dtype=x.dtype).reshape(1, 1, *x.shape[2:])
        for seen, place in zip(
            self._window_elements(x, -np.inf), self._window_elements(places, -1), strict=True
        ):
            index = np.where(seen > largest, place, index)
            largest = np.where(seen > largest, seen, largest)
        return [index]


@dataclass(frozen=True, slots=True)
class AveragePool(Windows):
    """The sum of each window divided by the number of its elements that are not padding."""

    def evaluate(self, x: Array) -> list[Array]:
        total = sum(self._window_elements(x, 0))
        count = sum(self._window_elements(np.ones_like(x), 0))
        return [np.asarray(total / count, x.dtype)]


@dataclass(frozen=True, slots=True)
class StochasticPool(Windows):
    """The mean of each window, its elements weighted by themselves: ``sum(x^2) / sum(x)``.

    0 where the sum is not positive.
    """

    def evaluate(self, x: Array) -> list[Array]:
        total = np.asarray(sum(self._window_elements(x, 0)))
        squares = np.asarray(sum(seen * seen for seen in self._window_elements(x, 0)))
        return [np.where(total > 0, squares / np.where(total > 0, total, 1), 0).astype(x.dtype)]
