"""The middles of the bins of regions, as AffordanceNet reads them, bin by bin."""

from __future__ import annotations

import numpy as np

HEIGHT, WIDTH, SCALE = 3, 2, 0.25


def middle(start, end, place, count, size):
    side = max(end - start + 1, 1) / count
    low, high = (min(max(start + index * side, 0), size - 1) for index in (place, place + 1))
    return (low + high) / 2


def between(channel, y, x):
    top, left = int(np.floor(y)), int(np.floor(x))
    bottom, right = int(np.ceil(y)), int(np.ceil(x))
    down, across = y - top, x - left
    upper = channel[top, left] * (1 - across) + channel[top, right] * across
    lower = channel[bottom, left] * (1 - across) + channel[bottom, right] * across
    return upper * (1 - down) + lower * down


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    y = np.zeros((len(inputs["rois"]), x.shape[1], HEIGHT, WIDTH))
    for number, (image, *corners) in enumerate(inputs["rois"].astype(np.float64)):
        left, top, right, bottom = (corner * SCALE for corner in corners)
        for row, column in np.ndindex(HEIGHT, WIDTH):
            place = (
                middle(top, bottom, row, HEIGHT, x.shape[2]),
                middle(left, right, column, WIDTH, x.shape[3]),
            )
            for channel, plane in enumerate(x[int(image) % len(x)]):
                y[number, channel, row, column] = between(plane, *place)
    return {"y": y}
