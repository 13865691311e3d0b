from itertools import product
from math import ceil

import numpy as np


def pooled(x, kernel, stride, pad, is_mean):
    """Window by window."""
    sizes = x.shape[2:]
    counts = [
        ceil((size + 2 * p - k) / s) + 1 for size, k, s, p in zip(sizes, kernel, stride, pad, strict=True)
    ]
    if any(pad):
        counts = [
            n - ((n - 1) * s >= size + p) for n, size, s, p in zip(counts, sizes, stride, pad, strict=True)
        ]
    y = np.empty((*x.shape[:2], *counts))
    for place in product(*map(range, counts)):
        starts = [i * s - p for i, s, p in zip(place, stride, pad, strict=True)]
        ends = [min(a + k, size + p) for a, k, size, p in zip(starts, kernel, sizes, pad, strict=True)]
        inside = tuple(slice(max(a, 0), min(b, size)) for a, b, size in zip(starts, ends, sizes, strict=True))
        elements = x[(slice(None), slice(None), *inside)]
        area = np.prod([b - a for a, b in zip(starts, ends, strict=True)])
        y[(slice(None), slice(None), *place)] = (
            elements.sum((2, 3, 4)) / area if is_mean else elements.max((2, 3, 4))
        )
    return y


def outputs(inputs, weights):
    slope, bias, mean, variance = (
        np.reshape(blob, (1, -1, 1, 1, 1)).astype(np.float64) for blob in weights["bn"]
    )
    x = (inputs["x"] - mean) / np.sqrt(variance + 0.001) * slope + bias
    return {
        "largest": pooled(x, (2, 3, 3), (2, 2, 2), (0, 0, 0), False),
        "padded": pooled(x, (1, 3, 2), (3, 2, 3), (0, 1, 0), False),
        "mean": pooled(x, (3, 3, 3), (2, 2, 2), (1, 1, 1), True),
        "whole": pooled(x, x.shape[2:], (1, 1, 1), (0, 0, 0), True),
    }
