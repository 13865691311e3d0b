"""Sliding windows: the axes TensorRT needs, and what each window sees, laid out side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.converter.backends.tensorrt.shape import pad_with, shuffle
from prototrt.converter.files.readers.tensorrt_limits import WITHOUT_ENGINE
from prototrt.surgery.ir import Array

MOST_SPATIAL = 3
"""Axes that TensorRT's windows can slide over."""


def refuse_many_spatial_axes(network: Network, spatial: int) -> None:
    if spatial > MOST_SPATIAL:
        raise UnsupportedLayerError(
            f"slides over {spatial} axes, expected at most {MOST_SPATIAL}",
            origin=network.origin,
            because="TensorRT has no windows over more axes",
            fix=WITHOUT_ENGINE,
        )


def lift_of(stride: tuple[int, ...]) -> int:
    """A window over one axis becomes one over two axes, the first of size 1."""
    return max(0, 2 - len(stride))


def with_unit_axes(network: Network, x: Tensor, lift: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """``function`` over x (N, C, ...) with ``lift`` axes of size 1 after the channels."""
    if not lift:
        return function(x)
    y = function(shuffle(network, x, (*_sizes_to_keep(x, 2), *(1,) * lift, *tuple(x.shape)[2:])))
    return shuffle(network, y, (*_sizes_to_keep(y, 2), *tuple(y.shape)[2 + lift :]))


def _sizes_to_keep(x: Tensor, axes: int) -> tuple[int, ...]:
    """The first sizes of x for a reshape that keeps them: 0, which copies a size, where it varies."""
    return tuple([0 if size < 0 else size for size in tuple(x.shape)[:axes]])


def pad_spatially(
    network: Network, x: Tensor, before: tuple[int, ...], after: tuple[int, ...], value: float
) -> Tensor:
    """``value`` around the spatial axes of x (N, C, ...): x itself where nothing is to be added."""
    if not any(before + after):
        return x
    return pad_with(network, x, (0, 0, *before), (0, 0, *after), value)


def gather_windows(
    network: Network, x: Tensor, window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Tensor:
    """x (N, C, ...) as (N, C, places of the window..., windows...), one gather an axis."""
    sizes: list[int] = [0, 0]
    for axis, places in enumerate(window_places(tuple(x.shape)[2:], window, stride, dilation), 2):
        x = network.add("gather", x, network.constant_array(places.reshape(-1)), axis).get_output(0)
        sizes += places.shape
    count = len(window)
    layer = network.add("shuffle", x)
    layer.reshape_dims = tuple(sizes)
    places_first = (0, 1, *range(2, 2 + 2 * count, 2), *range(3, 3 + 2 * count, 2))
    layer.second_transpose = network.trt.Permutation(places_first)
    return layer.get_output(0)


def window_places(
    sizes: tuple[int, ...], window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> list[Array]:
    """For each axis, where place p of window o looks: (window, windows)."""
    return [
        (d * np.arange(k)[:, None] + s * np.arange((size - d * (k - 1) - 1) // s + 1)[None]).astype(np.int32)
        for size, k, s, d in zip(sizes, window, stride, dilation, strict=True)
    ]
