"""SPN's soft proposal: the shares of places in a random walk, step by step."""

from __future__ import annotations

import numpy as np


def shares(image, factor, tolerance, steps):
    _, height, width = image.shape
    places = [(row, column) for row in range(height) for column in range(width)]
    ways = np.zeros((len(places), len(places)))
    for first, (i, j) in enumerate(places):
        for second, (p, q) in enumerate(places):
            near = np.exp(((i - p) ** 2 + (j - q) ** 2) / (-2 * factor**2))
            ways[first, second] = np.sqrt(np.sum((image[:, i, j] - image[:, p, q]) ** 2)) + near
    for column in range(len(places)):
        ways[:, column] /= ways[:, column].sum()
    result = buffer = np.full(len(places), 1 / len(places))
    for _ in range(steps):
        buffer = ways @ result - buffer
        if np.sqrt(np.sum(buffer**2)) < tolerance:
            break
        buffer = result + buffer
        result = buffer / buffer.sum()
    return result.reshape(height, width)


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    settings = {"usual": (0.15 * x.shape[3], 1e-4, 20), "short": (2, 0.01, 7)}
    return {
        blob: np.stack([image * shares(image, *numbers) for image in x]) for blob, numbers in settings.items()
    }
