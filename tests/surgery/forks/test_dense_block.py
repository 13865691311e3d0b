"""DenseBlock against loops written after its source."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt import Way
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import WAYS, numbers, op, run, stored

GROWTH, CHANNELS, COUNT = 2, 3, 2


def blobs(squeezes: bool, kernel: int) -> list[Array]:
    random = np.random.default_rng(11)
    widths = [CHANNELS + GROWTH * index for index in range(COUNT)]
    inner = [4 * GROWTH] * COUNT

    def five(kernel: int, sizes: list[int], outputs: int, channels: list[int]) -> list[Array]:
        filters = [random.standard_normal((outputs, size, kernel, kernel)) for size in sizes]
        norms = [
            [random.uniform(low, high, (1, size, 1, 1)) for size in channels]
            for low, high in ((0.5, 1.5), (-1, 1), (-1, 1), (1, 3))
        ]
        return [*filters, *(blob for kind in norms for blob in kind)]

    stored = five(kernel, inner if squeezes else widths, GROWTH, widths)
    if squeezes:
        stored += five(1, widths, 4 * GROWTH, inner)
    return [blob.astype(np.float32) for blob in [*stored, np.array([2.0])]]


def normalized(x: Array, stored: list[Array], first: int, index: int, factor: float) -> Array:
    scale, bias, mean, variance = (stored[first + COUNT * kind + index] for kind in range(4))
    hat = (x - mean / factor) / np.sqrt(variance / factor + 1e-5)
    return np.maximum(scale * hat + bias, 0)


def convolved(x: Array, kernel: Array) -> Array:
    """A convolution in the mathematical sense: the kernel runs backwards."""
    pad = kernel.shape[2] // 2
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    height, width = x.shape[2:]
    y = np.zeros((len(x), len(kernel), height, width))
    for i in range(kernel.shape[2]):
        for j in range(kernel.shape[3]):
            seen = padded[:, :, 2 * pad - i : 2 * pad - i + height, 2 * pad - j : 2 * pad - j + width]
            y += np.einsum("nchw,oc->nohw", seen, kernel[:, :, i, j])
    return y


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("squeezes", "kernel", "fields"),
    [
        (False, 3, ""),
        (True, 3, ""),
        (False, 5, "filter_H: 5 filter_W: 5 pad_h: 2 pad_w: 2"),
        (False, 1, "filter_H: 1 filter_W: 1 pad_h: 0 pad_w: 0"),
    ],
)
def test_dense_block(squeezes: bool, kernel: int, fields: str, on: Way) -> None:
    narrow = blobs(squeezes, kernel)
    x = numbers(2, CHANNELS, 4, 5)
    param = f"numTransition: {COUNT} growthRate: {GROWTH} use_BC: {str(squeezes).lower()} {fields}"
    layer = op("DenseBlock", f"denseblock_param {{ {param} }}")
    result = run(layer, {"x": x}, stored("op", narrow), on)["y"]
    y: Array = x.astype(np.float64)
    wide = [blob.astype(np.float64) for blob in narrow]
    for index in range(COUNT):
        inner = normalized(y, wide, COUNT, index, 2.0)
        if squeezes:
            inner = normalized(convolved(inner, wide[5 * COUNT + index]), wide, 6 * COUNT, index, 2.0)
        y = np.concatenate([y, convolved(inner, wide[index])], 1)
    np.testing.assert_allclose(result, y, 1e-4, 1e-5)
