"""Convolution and deconvolution over two or three spatial axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from prototrt.converter.backends.readback.registry import (
    Array,
    Evaluate,
    Layer,
    evaluates,
    weights_array,
)
from prototrt.converter.backends.readback.windows import Window, pad, windows_along


def _with_bias(y: Array, bias: Array | None) -> Array:
    return y if bias is None else y + bias.reshape(-1, *(1,) * (y.ndim - 2))


@evaluates("CONVOLUTION")
def convolution(layer: Layer) -> Evaluate:
    """Correlation of x (N C ...) with a kernel (K C/groups ...), given as weights or as second input."""
    size, maps, groups = tuple(layer.kernel_size_nd), layer.num_output_maps, layer.num_groups
    window = Window.of(layer, size)
    stored_kernel, stored_bias = weights_array(layer.kernel), weights_array(layer.bias)

    def evaluate(x: Array, kernel: Array | None = stored_kernel, bias: Array | None = None) -> Array:
        assert kernel is not None
        walks = window.walks(x.shape[2:])
        views = pad(x, walks, 0)
        for axis, walk in enumerate(walks, 2):
            views = windows_along(views, axis, walk)
        matrix = kernel.reshape(groups, maps // groups, -1)
        y = np.stack([_products(sample, matrix, len(size)) for sample in views])
        return _with_bias(y, stored_bias if bias is None else bias)

    return evaluate


def _products(views: Array, kernel: Array, spatial: int) -> Array:
    """One sample: ``views`` (C, outputs..., window...) times ``kernel`` (G, K/G, C/G * window)."""
    outputs = views.shape[1 : 1 + spatial]
    columns = np.moveaxis(views, range(1, 1 + spatial), range(-spatial, 0))
    columns = columns.reshape(kernel.shape[0], kernel.shape[2], math.prod(outputs))
    y: Array = np.matmul(kernel, columns)
    return y.reshape(-1, *outputs)


@evaluates("DECONVOLUTION")
def deconvolution(layer: Layer) -> Evaluate:
    """The transpose of convolution. The kernel is (C K/groups ...); padding is cut from the result."""
    size, groups = tuple(layer.kernel_size_nd), layer.num_groups
    window = Window.of(layer, size)
    stored_kernel, stored_bias = weights_array(layer.kernel), weights_array(layer.bias)

    def evaluate(x: Array, kernel: Array | None = stored_kernel, bias: Array | None = None) -> Array:
        assert kernel is not None
        kernel = kernel.reshape(groups, x.shape[1] // groups, -1, *size)
        y = _crop(_scatter(x, kernel, window), window)
        return _with_bias(y, stored_bias if bias is None else bias)

    return evaluate


def _scatter(x: Array, kernel: Array, window: Window) -> Array:
    """Each input element adds a scaled copy of the kernel (G, C/G, K/G, window...) to the result."""
    groups, inputs, outputs = kernel.shape[:3]
    lengths = x.shape[2:]
    axes = list(zip(lengths, window.size, window.stride, window.dilation, strict=True))
    whole = [(length - 1) * stride + dilation * (size - 1) + 1 for length, size, stride, dilation in axes]
    y = np.zeros((x.shape[0], groups * outputs, *whole), np.float32)
    columns = x.reshape(x.shape[0], groups, inputs, -1)
    for position in itertools.product(*map(range, window.size)):
        part = np.matmul(kernel[_last_axes(position)].transpose(0, 2, 1), columns)
        begins = [place * dilation for place, dilation in zip(position, window.dilation, strict=True)]
        landing = [
            slice(begin, begin + (length - 1) * stride + 1, stride)
            for begin, (length, _, stride, _) in zip(begins, axes, strict=True)
        ]
        y[_last_axes(landing)] += part.reshape(x.shape[0], groups * outputs, *lengths)
    return y


def _last_axes(indices: Iterable[int | slice]) -> Any:
    """The index that leaves the first axes alone."""
    return (..., *indices)


def _crop(y: Array, window: Window) -> Array:
    ends = [whole - cut for whole, cut in zip(y.shape[2:], window.after, strict=True)]
    return np.asarray(y[_last_axes([slice(*each) for each in zip(window.before, ends, strict=True)])])
