from math import ceil

import numpy as np


def correlation(a, b, pad, kernel, farthest, stride, moves):
    a, b = (np.pad(x, [(0, 0), (0, 0), (0, 0), (pad, pad)]) for x in (a, b))
    items, _, height, width = a.shape
    radius = kernel // 2
    rows = ceil((height - 2 * radius) / stride)
    columns = ceil((width - 2 * (farthest + radius)) / stride)
    y = np.zeros((items, len(moves), rows, columns))
    for item, channel, row, column in np.ndindex(y.shape):
        top, left = row * stride, column * stride + farthest
        moved = left + moves[channel]
        one = a[item, :, top : top + kernel, left : left + kernel]
        other = b[item, :, top : top + kernel, moved : moved + kernel]
        y[item, channel, row, column] = (one * other).mean()
    return y


def outputs(inputs, weights):
    a, b = (inputs[name].astype(np.float64) for name in ("a", "b"))
    return {
        "both": correlation(a, b, 3, 1, 3, 1, [-3, -2, -1, 0, 1, 2, 3]),
        "right": correlation(a, b, 4, 3, 4, 2, [0, 2, 4]),
    }
